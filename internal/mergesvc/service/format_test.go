package service_test

import (
	"encoding/json"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protojson"
	v1 "k8s.io/api/core/v1"

	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

// first returns the first pod that a fresh consumer of the format receives.
func first(n *node, format podconfigv1.PodFormat) *podconfigv1.Pod {
	n.t.Helper()
	s := n.watch(&podconfigv1.WatchPodUpdatesRequest{Format: format})
	defer s.cancel()
	return s.unit().pods()[0]
}

// TestFormatJSON: without a format, grpcurl receives the whole pod, as kubectl shows it.
func TestFormatJSON(t *testing.T) {
	n := start(t, options{})
	n.set("file", "a: web(uid=u1,ns=prod,image=nginx:1,label.app=shop,deleting=30,phase=Running,hash=u1)")
	for _, format := range []podconfigv1.PodFormat{podconfigv1.PodFormat_POD_FORMAT_UNSPECIFIED, podconfigv1.PodFormat_POD_FORMAT_JSON} {
		shown, err := protojson.Marshal(first(n, format))
		if err != nil {
			t.Fatalf("protojson.Marshal: %v; want the pod", err)
		}
		var got struct {
			Ref, SpecDigest any
			Source          string
			JSON            v1.Pod
		}
		if err := json.Unmarshal(shown, &got); err != nil {
			t.Fatalf("grpcurl's output isn't a pod: %v\n%s", err, shown)
		}
		pod := got.JSON
		for _, tc := range []struct{ what, got, want string }{
			{"apiVersion", pod.APIVersion, "v1"},
			{"kind", pod.Kind, "Pod"},
			{"source", got.Source, "file"},
			{"metadata.name", pod.Name, "web"},
			{"metadata.namespace", pod.Namespace, "prod"},
			{"metadata.uid", string(pod.UID), "u1"},
			{"metadata.labels.app", pod.Labels["app"], "shop"},
			{"config.source", pod.Annotations["kubernetes.io/config.source"], "file"},
			{"config.seen", pod.Annotations["kubernetes.io/config.seen"], "1970-01-01T00:00:01Z"},
			{"config.hash", pod.Annotations["kubernetes.io/config.hash"], "u1"},
			{"status.phase", string(pod.Status.Phase), "Running"},
		} {
			if tc.got != tc.want {
				t.Errorf("%v: %s is %q; want %q, in\n%s", format, tc.what, tc.got, tc.want, shown)
			}
		}
		if len(pod.Spec.Containers) != 1 || pod.Spec.Containers[0].Image != "nginx:1" {
			t.Errorf("%v: containers are %v; want one with image nginx:1", format, pod.Spec.Containers)
		}
		if pod.DeletionTimestamp == nil || *pod.DeletionGracePeriodSeconds != 30 {
			t.Errorf("%v: deletion at %v with grace %v; want a time, and 30", format, pod.DeletionTimestamp, pod.DeletionGracePeriodSeconds)
		}
	}
}

// TestFormatProtobuf: the bare message k8s.io.api.core.v1.Pod.
func TestFormatProtobuf(t *testing.T) {
	n := start(t, options{})
	n.set("file", "a: web(uid=u1,image=nginx:1)")
	p := first(n, podconfigv1.PodFormat_POD_FORMAT_PROTOBUF)
	var pod v1.Pod
	if err := pod.Unmarshal(p.GetProtobuf()); err != nil {
		t.Fatalf("the content isn't a pod: %v", err)
	}
	if pod.UID != "u1" || pod.Spec.Containers[0].Image != "nginx:1" || pod.Annotations["kubernetes.io/config.source"] != "file" {
		t.Errorf("the pod is %v; want u1 with image nginx:1 and source file", &pod)
	}
}

// TestFormatReference: names and digests, the same in every format; a REMOVE has no more in any.
func TestFormatReference(t *testing.T) {
	n := start(t, options{})
	full := n.watch(&podconfigv1.WatchPodUpdatesRequest{Format: podconfigv1.PodFormat_POD_FORMAT_JSON})
	full.want("synced")
	n.set("file", "a: web(uid=u1,ns=prod)")
	p := first(n, podconfigv1.PodFormat_POD_FORMAT_REFERENCE)
	if p.GetContent() != nil {
		t.Errorf("content is %v; want none", p.GetContent())
	}
	if ref := p.GetRef(); ref.GetUid() != "u1" || ref.GetNamespace() != "prod" || ref.GetName() != "web" || p.GetSource() != "file" {
		t.Errorf("the pod is %v of %s; want u1 prod/web of file", ref, p.GetSource())
	}
	added := full.unit().pods()[0]
	if added.GetSpecDigest() != p.GetSpecDigest() || added.GetStatusDigest() != p.GetStatusDigest() ||
		!strings.HasPrefix(p.GetSpecDigest(), "sha256:") {
		t.Errorf("digests are %s and %s by reference, %s and %s in JSON; want the same, sha256", p.GetSpecDigest(), p.GetStatusDigest(),
			added.GetSpecDigest(), added.GetStatusDigest())
	}
	n.set("file", "a:")
	if removed := full.unit().pods()[0]; removed.GetContent() != nil || removed.GetRef().GetName() != "web" ||
		removed.GetSpecDigest() != p.GetSpecDigest() {
		t.Errorf("the REMOVE has %v; want reference and digests only", removed)
	}
}
