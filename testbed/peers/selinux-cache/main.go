// Upstream's SELinux conflict cache: what loading pods, listing conflicts, a metrics scrape, an event and a
// delete cost. Prints one JSON object.
//
//	selinux-cache PODS DELETES                       pods of two labels on one shared volume
//	selinux-cache PODS DELETES VOLUMES CONTESTED     pods on many volumes, of which so many have one pod
//	                                                 with another label
package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http/httptest"
	"os"
	"runtime"
	"strconv"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/component-base/metrics/legacyregistry"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/controller/volume/selinuxwarning"
	conflicts "k8s.io/kubernetes/pkg/controller/volume/selinuxwarning/cache"
	"k8s.io/kubernetes/pkg/controller/volume/selinuxwarning/translator"
)

type measured struct {
	Pods        int     `json:"pods"`
	LoadNs      int64   `json:"loadNs"`
	Conflicts   int     `json:"conflicts"`
	ListNs      int64   `json:"listNs"`
	ScrapeNs    int64   `json:"scrapeNs"`
	ScrapeBytes int64   `json:"scrapeBytes"`
	HeapBytes   uint64  `json:"heapBytes"`
	EventNs     []int64 `json:"eventNs"`
	DeleteNs    []int64 `json:"deleteNs"`
}

func main() {
	m, err := measure(os.Args[1:])
	if err == nil {
		err = json.NewEncoder(os.Stdout).Encode(m)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

func measure(args []string) (measured, error) {
	if len(args) != 2 && len(args) != 4 {
		return measured{}, fmt.Errorf("usage: selinux-cache PODS DELETES [VOLUMES CONTESTED]")
	}
	numbers := []int{}
	for _, arg := range args {
		number, err := strconv.Atoi(arg)
		if err != nil || number < 0 {
			return measured{}, fmt.Errorf("%q is no number", arg)
		}
		numbers = append(numbers, number)
	}
	pods, deletes := numbers[0], numbers[1]
	if deletes > pods {
		return measured{}, fmt.Errorf("%d pods cannot be deleted, there are %d", deletes, pods)
	}
	shape := scene{volumes: 1}
	if len(numbers) == 4 {
		shape = scene{volumes: numbers[2], contested: numbers[3], many: true}
	}
	if shape.volumes == 0 {
		return measured{}, fmt.Errorf("there must be a volume")
	}
	return shape.measure(pods, deletes), nil
}

// scene says which pod has which volume and which label.
type scene struct {
	volumes, contested int
	many               bool
}

func (s scene) volume(pod int) string {
	return fmt.Sprintf("kubernetes.io/csi/csi.example.com^vol-%05d", pod%s.volumes)
}

func (s scene) label(pod int) int {
	if !s.many {
		return pod % 2
	}
	if pod < s.contested {
		return 1
	}
	return 0
}

func (s scene) measure(pods, deletes int) measured {
	m := measured{Pods: pods}
	volumes := conflicts.NewVolumeLabelCache(&translator.ControllerSELinuxTranslator{})
	selinuxwarning.RegisterMetrics(klog.Background(), volumes)

	// The words are made in batches, while the clock stands.
	for first := 0; first < pods; first += batch {
		made := []entry{}
		for i := first; i < min(first+batch, pods); i++ {
			made = append(made, s.entry(i, s.label(i)))
		}
		m.LoadNs += timed(func() {
			for _, e := range made {
				e.add(volumes)
			}
		})
	}
	var memory runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&memory)
	m.HeapBytes = memory.HeapAlloc
	m.ListNs = timed(func() { m.Conflicts = len(volumes.GetConflicts(klog.Background())) })
	m.ScrapeNs = timed(func() { m.ScrapeBytes = scrape() })
	for i := range deletes {
		e := s.entry(i, 1-s.label(i))
		m.EventNs = append(m.EventNs, timed(func() { e.add(volumes) }))
		m.DeleteNs = append(m.DeleteNs, timed(func() { volumes.DeletePod(klog.Background(), e.pod) }))
	}
	return m
}

func podName(i int) cache.ObjectName {
	return cache.ObjectName{Namespace: "shop", Name: fmt.Sprintf("web-%06d", i)}
}

// batch is how many words are made at a time.
const batch = 1000

// entry is one pod's use of a volume, as the cache takes it.
type entry struct {
	volume v1.UniqueVolumeName
	pod    cache.ObjectName
	label  string
}

func (s scene) entry(pod, label int) entry {
	level := fmt.Sprintf(":::s0:c%d,c%d", 10+label, 20+label)
	return entry{v1.UniqueVolumeName(s.volume(pod)), podName(pod), level}
}

func (e entry) add(volumes conflicts.VolumeCache) {
	volumes.AddVolume(klog.Background(), e.volume, e.pod, e.label, v1.SELinuxChangePolicyMountOption, "csi.example.com")
}

// scrape answers one request to /metrics, as Prometheus would send it, and tells the body's length.
func scrape() int64 {
	recorder := httptest.NewRecorder()
	legacyregistry.Handler().ServeHTTP(recorder, httptest.NewRequest("GET", "/metrics", nil))
	length, _ := io.Copy(io.Discard, recorder.Result().Body)
	return length
}

func timed(work func()) int64 {
	began := time.Now()
	work()
	return time.Since(began).Nanoseconds()
}
