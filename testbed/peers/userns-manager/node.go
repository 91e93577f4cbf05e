package main

import (
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/kubelet/userns"
)

// Every block of the 32-bit space but the host's and the last, which the kernel cannot map: what the
// ledger has, too.
const slots = 65534

// node is as much of a kubelet as the manager wants to see.
type node struct {
	dir      string
	manager  *userns.UsernsManager
	prepared []types.UID
	held     []types.UID
	next     int
}

func (n *node) HandlerSupportsUserNamespaces(string) (bool, error) { return true, nil }
func (n *node) GetMaxPods() int                                    { return slots }
func (n *node) GetPodDir(uid types.UID) string                     { return filepath.Join(n.dir, string(uid)) }

func (n *node) GetKubeletMappings(_ klog.Logger, idsPerPod uint32) (uint32, uint32, error) {
	return idsPerPod, slots * idsPerPod, nil
}

func (n *node) ListPodsFromDisk() ([]types.UID, error) {
	entries, err := os.ReadDir(n.dir)
	if err != nil {
		return nil, err
	}
	uids := make([]types.UID, 0, len(entries))
	for _, entry := range entries {
		if entry.IsDir() {
			uids = append(uids, types.UID(entry.Name()))
		}
	}
	return uids, nil
}

func (n *node) open(dir string) (answer, error) {
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return answer{}, err
	}
	n.dir = dir
	return n.restart()
}

func (n *node) restart() (answer, error) {
	n.manager = nil
	began := time.Now()
	manager, err := userns.MakeUserNsManager(klog.Background(), n, nil)
	took := time.Since(began).Nanoseconds()
	if err == nil && manager == nil {
		err = fmt.Errorf("the feature gate is off")
	}
	n.manager = manager
	return answer{WallNs: took, Ns: []int64{took}}, err
}

func (n *node) prepare(count int) error {
	for range count {
		uid := types.UID(fmt.Sprintf("6f1c5f3a-0000-4000-8000-%012d", n.next))
		n.next++
		if err := os.MkdirAll(n.GetPodDir(uid), 0o750); err != nil {
			return err
		}
		n.prepared = append(n.prepared, uid)
	}
	// So that no lease pays for these directories.
	syscall.Sync()
	return nil
}

func (n *node) lease(threads, each int) (answer, error) {
	if n.manager == nil || threads*each > len(n.prepared) {
		return answer{}, fmt.Errorf("%d pods are prepared, %d are needed", len(n.prepared), threads*each)
	}
	uids := n.prepared[:threads*each]
	n.prepared = n.prepared[threads*each:]
	n.held = append(n.held, uids...)
	pods := make([]*v1.Pod, len(uids))
	for i, uid := range uids {
		isolated := false
		pods[i] = &v1.Pod{ObjectMeta: metav1.ObjectMeta{UID: uid}, Spec: v1.PodSpec{HostUsers: &isolated}}
	}
	return n.timed(threads, each, func(i int) error {
		_, err := n.manager.GetOrCreateUserNamespaceMappings(klog.Background(), pods[i], "")
		return err
	})
}

func (n *node) release(count int) (answer, error) {
	if n.manager == nil || count > len(n.held) {
		return answer{}, fmt.Errorf("%d pods hold a lease, %d were to be released", len(n.held), count)
	}
	uids := n.held[:count]
	n.held = n.held[count:]
	return n.timed(1, count, func(i int) error {
		n.manager.Release(klog.Background(), uids[i])
		return nil
	})
}

// timed does operations 0 to threads*each-1, each thread its own run of them, all from one start.
func (n *node) timed(threads, each int, operation func(int) error) (answer, error) {
	a := answer{Ns: make([]int64, threads*each)}
	failures := make([]error, threads)
	start := make(chan struct{})
	var done sync.WaitGroup
	for thread := range threads {
		done.Go(func() {
			<-start
			for i := thread * each; i < (thread+1)*each; i++ {
				began := time.Now()
				if err := operation(i); err != nil {
					failures[thread] = err
					return
				}
				a.Ns[i] = time.Since(began).Nanoseconds()
			}
		})
	}
	began := time.Now()
	close(start)
	done.Wait()
	a.WallNs = time.Since(began).Nanoseconds()
	for _, err := range failures {
		if err != nil {
			return a, err
		}
	}
	return a, nil
}
