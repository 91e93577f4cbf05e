// Prints the checks that Kubernetes' own Pod Security evaluator says a pod fails. A line of JSON in, with a manifest and
// the versions to judge it by; a line of JSON out, with the names of the checks for each level and version.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/pod-security-admission/api"
	"k8s.io/pod-security-admission/policy"
)

type question struct {
	Manifest string   `json:"manifest"`
	Versions []string `json:"versions"`
}

type verdict struct {
	Level   api.Level `json:"level"`
	Version string    `json:"version"`
	Fails   []string  `json:"fails"`
}

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

func run() error {
	evaluator, err := policy.NewEvaluator(policy.DefaultChecks(), nil)
	if err != nil {
		return err
	}
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 1<<20)
	out := bufio.NewWriter(os.Stdout)
	answers := json.NewEncoder(out)
	for lines.Scan() {
		var asked question
		if err := json.Unmarshal(lines.Bytes(), &asked); err != nil {
			return err
		}
		verdicts, err := judge(evaluator, &asked)
		if err != nil {
			return err
		}
		if err := answers.Encode(verdicts); err != nil {
			return err
		}
	}
	if err := lines.Err(); err != nil {
		return err
	}
	return out.Flush()
}

func judge(evaluator policy.Evaluator, asked *question) ([]verdict, error) {
	var pod corev1.Pod
	if err := yaml.Unmarshal([]byte(asked.Manifest), &pod); err != nil {
		return nil, err
	}
	// The API server gives a volume without a source an emptyDir before it asks the evaluator.
	for i := range pod.Spec.Volumes {
		if source := &pod.Spec.Volumes[i].VolumeSource; *source == (corev1.VolumeSource{}) {
			source.EmptyDir = &corev1.EmptyDirVolumeSource{}
		}
	}
	var verdicts []verdict
	for _, text := range asked.Versions {
		version, err := api.ParseVersion(text)
		if err != nil {
			return nil, err
		}
		for _, level := range []api.Level{api.LevelBaseline, api.LevelRestricted} {
			at := api.LevelVersion{Level: level, Version: version}
			fails := failing(at, &pod)
			// The evaluator's results do not name their checks, but there must be as many.
			refused := 0
			for _, result := range evaluator.EvaluatePod(at, &pod.ObjectMeta, &pod.Spec) {
				if !result.Allowed {
					refused++
				}
			}
			if refused != len(fails) {
				return nil, fmt.Errorf("%s at %s: the evaluator refuses by %d checks, not by %v", pod.Name, at, refused, fails)
			}
			verdicts = append(verdicts, verdict{level, "1." + fmt.Sprint(version.Minor()), fails})
		}
	}
	return verdicts, nil
}

// The checks of a level and version that refuse a pod, without those that another check of the level overrides.
func failing(at api.LevelVersion, pod *corev1.Pod) []string {
	fails := []string{}
	overridden := map[string]bool{}
	for _, check := range policy.DefaultChecks() {
		current := revision(check, at.Version)
		if current == nil || (check.Level == api.LevelRestricted && at.Level != api.LevelRestricted) {
			continue
		}
		for _, id := range current.OverrideCheckIDs {
			overridden[string(id)] = true
		}
		if !current.CheckPod(&pod.ObjectMeta, &pod.Spec).Allowed {
			fails = append(fails, string(check.ID))
		}
	}
	fails = slices.DeleteFunc(fails, func(id string) bool { return overridden[id] })
	slices.Sort(fails)
	return fails
}

// The newest revision of a check that a version has, if it has one.
func revision(check policy.Check, version api.Version) *policy.VersionedCheck {
	var newest *policy.VersionedCheck
	for i := range check.Versions {
		if !version.Older(check.Versions[i].MinimumVersion) {
			newest = &check.Versions[i]
		}
	}
	return newest
}
