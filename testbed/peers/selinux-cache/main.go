// Upstream's SELinux conflict cache with N pods of two labels on one shared volume: what loading them,
// a metrics scrape, an event and a delete cost. Prints one JSON object.
//
//	selinux-cache PODS DELETES
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
	if len(args) != 2 {
		return measured{}, fmt.Errorf("usage: selinux-cache PODS DELETES")
	}
	pods, err := strconv.Atoi(args[0])
	if err != nil {
		return measured{}, err
	}
	deletes, err := strconv.Atoi(args[1])
	if err != nil || deletes > pods {
		return measured{}, fmt.Errorf("%q is no number of pods to delete", args[1])
	}
	m := measured{Pods: pods}
	volumes := conflicts.NewVolumeLabelCache(&translator.ControllerSELinuxTranslator{})
	selinuxwarning.RegisterMetrics(klog.Background(), volumes)

	m.LoadNs = timed(func() {
		for i := range pods {
			add(volumes, i, i%2)
		}
	})
	var memory runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&memory)
	m.HeapBytes = memory.HeapAlloc
	m.ListNs = timed(func() { m.Conflicts = len(volumes.GetConflicts(klog.Background())) })
	m.ScrapeNs = timed(func() { m.ScrapeBytes = scrape() })
	for i := range deletes {
		m.EventNs = append(m.EventNs, timed(func() { add(volumes, i, (i+1)%2) }))
		m.DeleteNs = append(m.DeleteNs, timed(func() { volumes.DeletePod(klog.Background(), podName(i)) }))
	}
	return m, nil
}

func podName(i int) cache.ObjectName {
	return cache.ObjectName{Namespace: "shop", Name: fmt.Sprintf("web-%05d", i)}
}

func add(volumes conflicts.VolumeCache, pod, label int) {
	level := fmt.Sprintf(":::s0:c%d,c%d", 10+label, 20+label)
	volumes.AddVolume(klog.Background(), "csi/shared", podName(pod), level,
		v1.SELinuxChangePolicyMountOption, "csi.example.com")
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
