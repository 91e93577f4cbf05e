package main

import (
	"context"
	"errors"
	"fmt"
	_ "time/tzdata" // The server knows the time zones by itself, too.

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer/json"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	_ "k8s.io/kubernetes/pkg/apis/apps/install"
	_ "k8s.io/kubernetes/pkg/apis/batch/install"
	"k8s.io/kubernetes/pkg/apis/core"
	_ "k8s.io/kubernetes/pkg/apis/core/install"
	"k8s.io/kubernetes/pkg/capabilities"
	"k8s.io/kubernetes/pkg/registry/apps/daemonset"
	"k8s.io/kubernetes/pkg/registry/apps/deployment"
	"k8s.io/kubernetes/pkg/registry/apps/replicaset"
	"k8s.io/kubernetes/pkg/registry/apps/statefulset"
	"k8s.io/kubernetes/pkg/registry/batch/cronjob"
	"k8s.io/kubernetes/pkg/registry/batch/job"
	"k8s.io/kubernetes/pkg/registry/core/persistentvolume"
	"k8s.io/kubernetes/pkg/registry/core/persistentvolumeclaim"
	"k8s.io/kubernetes/pkg/registry/core/pod"
)

var strategies = map[schema.GroupVersionKind]rest.RESTCreateStrategy{
	{Version: "v1", Kind: "Pod"}:                        pod.Strategy,
	{Version: "v1", Kind: "PersistentVolume"}:           persistentvolume.Strategy,
	{Version: "v1", Kind: "PersistentVolumeClaim"}:      persistentvolumeclaim.Strategy,
	{Group: "apps", Version: "v1", Kind: "Deployment"}:  deployment.Strategy,
	{Group: "apps", Version: "v1", Kind: "StatefulSet"}: statefulset.Strategy,
	{Group: "apps", Version: "v1", Kind: "DaemonSet"}:   daemonset.Strategy,
	{Group: "apps", Version: "v1", Kind: "ReplicaSet"}:  replicaset.Strategy,
	{Group: "batch", Version: "v1", Kind: "Job"}:        job.Strategy,
	{Group: "batch", Version: "v1", Kind: "CronJob"}:    cronjob.Strategy,
}

var decoder = legacyscheme.Codecs.DecoderToVersion(
	json.NewSerializerWithOptions(json.DefaultMetaFactory, legacyscheme.Scheme, legacyscheme.Scheme,
		json.SerializerOptions{Strict: true}),
	runtime.InternalGroupVersioner)

func init() {
	// As with --allow-privileged=true, which every distribution of Kubernetes sets.
	capabilities.Setup(true, 0)
}

func judge(line []byte) (v verdict) {
	defer func() {
		if cause := recover(); cause != nil {
			v = refused("Panic", fmt.Sprint(cause))
		}
	}()
	object, kind, err := decoder.Decode(line, nil, nil)
	if err != nil {
		return refused("Decoding", err.Error())
	}
	strategy, ok := strategies[*kind]
	if !ok {
		return refused("Decoding", fmt.Sprintf("%v is not served here", kind))
	}
	return verdictOf(create(strategy, object, *kind))
}

func refused(kind, detail string) verdict {
	return verdict{Errors: []problem{{Type: kind, Detail: detail}}}
}

// create does what the create handler and the store do before an object is written to etcd.
func create(strategy rest.RESTCreateStrategy, object runtime.Object, kind schema.GroupVersionKind) error {
	metadata, err := meta.Accessor(object)
	if err != nil {
		return err
	}
	rest.WipeObjectMetaSystemFields(metadata)
	// The server replaces these by its own.
	metadata.SetManagedFields(nil)
	rest.FillObjectMetaSystemFields(metadata)
	// Admission comes first, and gives a service account to every pod but a mirror of a static one.
	if pod, ok := object.(*core.Pod); ok && pod.Spec.ServiceAccountName == "" && pod.Annotations[core.MirrorPodAnnotationKey] == "" {
		pod.Spec.ServiceAccountName = "default"
		pod.Spec.DeprecatedServiceAccount = "default"
	}
	if metadata.GetGenerateName() != "" && metadata.GetName() == "" {
		metadata.SetName(strategy.GenerateName(metadata.GetGenerateName()))
	}
	return rest.BeforeCreate(strategy, requestFor(strategy, metadata, kind), object)
}

// requestFor is a request to the namespace of the object, or to `default` as kubectl does without one.
func requestFor(strategy rest.RESTCreateStrategy, metadata metav1.Object, kind schema.GroupVersionKind) context.Context {
	namespace := metadata.GetNamespace()
	if namespace == "" && strategy.NamespaceScoped() {
		namespace = metav1.NamespaceDefault
	}
	ctx := request.WithNamespace(context.Background(), namespace)
	return request.WithRequestInfo(ctx, &request.RequestInfo{
		IsResourceRequest: true,
		Verb:              "create",
		APIGroup:          kind.Group,
		APIVersion:        kind.Version,
		Namespace:         namespace,
	})
}

func verdictOf(err error) verdict {
	if err == nil {
		return verdict{Accepted: true}
	}
	var status apierrors.APIStatus
	if !errors.As(err, &status) || status.Status().Details == nil || len(status.Status().Details.Causes) == 0 {
		return refused("Request", err.Error())
	}
	var v verdict
	for _, cause := range status.Status().Details.Causes {
		v.Errors = append(v.Errors, problem{Type: string(cause.Type), Field: cause.Field, Detail: cause.Message})
	}
	return v
}
