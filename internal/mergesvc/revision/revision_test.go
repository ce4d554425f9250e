package revision_test

import (
	"bytes"
	"encoding/json"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podstream/podstream/internal/access"
	"github.com/podstream/podstream/internal/manifest"
	"github.com/podstream/podstream/internal/mergesvc/revision"
	"github.com/podstream/podstream/internal/redact"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

// audience is an inspector's, or a consumer's.
func audience(redacted bool) redact.Audience {
	if redacted {
		return redact.AudienceOf(access.Inspector)
	}
	return redact.AudienceOf(access.Consumer)
}

func newPod() *revision.Pod {
	return &revision.Pod{
		Object: &v1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "prod", UID: "u1", Annotations: map[string]string{"k": "<&>"}},
			Spec: v1.PodSpec{Containers: []v1.Container{{Name: "main", Image: "nginx", Resources: v1.ResourceRequirements{
				Limits: v1.ResourceList{v1.ResourceCPU: resource.MustParse("1500m")},
			}}}},
			Status: v1.PodStatus{Phase: v1.PodRunning},
		},
		Source: "file", Stale: true, SpecDigest: "s", StatusDigest: "t",
	}
}

// TestMessageKeepsThePod decodes each format and compares the result with the pod.
func TestMessageKeepsThePod(t *testing.T) {
	p := newPod()
	for format, decode := range map[podconfigv1.PodFormat]func(*podconfigv1.Pod, *v1.Pod) error{
		podconfigv1.PodFormat_POD_FORMAT_UNSPECIFIED: fromJSON,
		podconfigv1.PodFormat_POD_FORMAT_JSON:        fromJSON,
		podconfigv1.PodFormat_POD_FORMAT_PROTOBUF: func(m *podconfigv1.Pod, pod *v1.Pod) error {
			return pod.Unmarshal(m.GetProtobuf())
		},
	} {
		m, err := p.Message(revision.EncodingFor(audience(false), format))
		if err != nil {
			t.Fatalf("%v: %v; want a message", format, err)
		}
		data, err := p.Encode(revision.EncodingFor(audience(false), format))
		sent := &podconfigv1.Pod{}
		if err != nil || proto.Unmarshal(data, sent) != nil || !proto.Equal(sent, m) {
			t.Errorf("%v: encoded it is %v, %v; want %v", format, sent, err, m)
		}
		var got v1.Pod
		if err := decode(m, &got); err != nil {
			t.Fatalf("%v: the content can't be decoded: %v", format, err)
		}
		got.TypeMeta = metav1.TypeMeta{}
		if diff := cmp.Diff(p.Object, &got); diff != "" {
			t.Errorf("%v: the pod has changed on the way (-want +got):\n%s", format, diff)
		}
		if m.GetRef().GetUid() != "u1" || m.GetRef().GetName() != "web" || m.GetRef().GetNamespace() != "prod" || !m.GetStale() ||
			m.GetSource() != "file" || m.GetSpecDigest() != "s" || m.GetStatusDigest() != "t" {
			t.Errorf("%v: the message is %v; want u1 prod/web of file, stale, with digests s and t", format, m)
		}
	}
	if p.Object.Kind != "" {
		t.Error("encoding has set the kind of the shared object; want it untouched")
	}
}

func fromJSON(m *podconfigv1.Pod, pod *v1.Pod) error {
	data, err := m.GetJson().MarshalJSON()
	if err != nil {
		return err
	}
	return json.Unmarshal(data, pod)
}

// TestEncodedOnce: all callers share the same bytes for each encoding, even concurrent ones.
func TestEncodedOnce(t *testing.T) {
	p := newPod()
	for _, format := range []podconfigv1.PodFormat{
		podconfigv1.PodFormat_POD_FORMAT_JSON, podconfigv1.PodFormat_POD_FORMAT_PROTOBUF, podconfigv1.PodFormat_POD_FORMAT_REFERENCE,
	} {
		for _, redacted := range []bool{false, true} {
			got := make([][]byte, 8)
			var all sync.WaitGroup
			for i := range got {
				all.Go(func() { got[i], _ = p.Encode(revision.EncodingFor(audience(redacted), format)) })
			}
			all.Wait()
			for i := range got {
				if len(got[i]) == 0 || &got[i][0] != &got[0][0] {
					t.Errorf("%v, redacted=%v: caller %d has other bytes than the first; want the same for all", format, redacted, i)
				}
			}
		}
	}
}

// TestRedactedEncoding: an inspector receives neither the secret nor a digest against which it could test
// guesses.
func TestRedactedEncoding(t *testing.T) {
	encode := func(secret string, e revision.Encoding) *podconfigv1.Pod {
		p := newPod()
		p.Object.Spec.Containers[0].Env = []v1.EnvVar{{Name: "PASSWORD", Value: secret}}
		spec, err := manifest.SpecDigest(p.Object)
		if err != nil {
			t.Fatal(err)
		}
		p.SpecDigest = spec
		data, err := p.Encode(e)
		if err != nil {
			t.Fatal(err)
		}
		if !e.Audience().Whole() && bytes.Contains(data, []byte(secret)) {
			t.Errorf("%v: the redacted pod holds the secret", e)
		}
		m := &podconfigv1.Pod{}
		if err := proto.Unmarshal(data, m); err != nil {
			t.Fatal(err)
		}
		return m
	}
	for _, format := range []podconfigv1.PodFormat{podconfigv1.PodFormat_POD_FORMAT_JSON, podconfigv1.PodFormat_POD_FORMAT_PROTOBUF} {
		whole, redacted := revision.EncodingFor(audience(false), format), revision.EncodingFor(audience(true), format)
		if a, b := encode("hunter2", whole), encode("sesame99", whole); a.GetSpecDigest() == b.GetSpecDigest() || proto.Equal(a, b) {
			t.Error("two secrets give one digest; want two: the test would prove nothing")
		}
		a, b := encode("hunter2", redacted), encode("sesame99", redacted)
		if !proto.Equal(a, b) {
			t.Errorf("%v: two secrets can be told apart: %v and %v", format, a, b)
		}
		if a.GetRef().GetName() != "web" || a.GetSpecDigest() == "" {
			t.Errorf("%v: redacted it is %v; want the rest of the pod", format, a)
		}
	}
}

// TestRedactedWithoutContainers: a pod without spec.containers is redacted, too. A pod with only a reference,
// such as a tombstone's, has no digests for an inspector.
func TestRedactedWithoutContainers(t *testing.T) {
	p := newPod()
	p.Object.Spec = v1.PodSpec{InitContainers: []v1.Container{{Name: "i", Env: []v1.EnvVar{{Name: "PASSWORD", Value: "hunter2"}}}}}
	for _, format := range []podconfigv1.PodFormat{podconfigv1.PodFormat_POD_FORMAT_JSON, podconfigv1.PodFormat_POD_FORMAT_PROTOBUF} {
		data, err := p.Encode(revision.EncodingFor(audience(true), format))
		if err != nil || bytes.Contains(data, []byte("hunter2")) {
			t.Errorf("%v: an inspector gets %q, %v; want the pod without its secret", format, data, err)
		}
	}
	if spec, status := p.Digests(audience(true)); spec == "" || status == "" || spec == p.SpecDigest {
		t.Errorf("an inspector's digests are %q and %q; want those of the redacted pod", spec, status)
	}
	p.Object = &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "prod", UID: "u1"}, Spec: v1.PodSpec{NodeName: "n"},
	}
	gone := &revision.Pod{Object: p.Object, Source: "file", SpecDigest: "s", StatusDigest: "t"}
	if spec, status := gone.Digests(audience(true)); spec != "" || status != "" {
		t.Errorf("an inspector's digests of a reference are %q and %q; want none", spec, status)
	}
	if spec, status := gone.Digests(audience(false)); spec != "s" || status != "t" {
		t.Errorf("a consumer's digests of a reference are %q and %q; want the reference's", spec, status)
	}
}

// TestRemoved: a removed pod has only reference and digests, and isn't stale, even if it was.
func TestRemoved(t *testing.T) {
	p := newPod()
	data, err := p.EncodeRemoved(revision.EncodingFor(audience(false), podconfigv1.PodFormat_POD_FORMAT_JSON))
	m := &podconfigv1.Pod{}
	if err != nil || proto.Unmarshal(data, m) != nil || m.GetContent() != nil || m.GetStale() || m.GetRef().GetUid() != "u1" || m.GetSpecDigest() != "s" {
		t.Errorf("EncodeRemoved gives %v, %v; want u1 with its digests, no content, not stale", m, err)
	}
	if ref, _ := p.Message(revision.EncodingFor(audience(false), podconfigv1.PodFormat_POD_FORMAT_REFERENCE)); !ref.GetStale() {
		t.Error("after EncodeRemoved the reference is no longer stale; want it unchanged")
	}
}

func TestUnknownFormat(t *testing.T) {
	if _, err := newPod().Encode(revision.EncodingFor(audience(false), 99)); err == nil || !strings.Contains(err.Error(), "99") {
		t.Errorf("Encode(99): %v; want an error that names the format", err)
	}
}

// TestOps: the ops are numbered and named as podconfig.v1.PodOperation.
func TestOps(t *testing.T) {
	for number, name := range podconfigv1.PodOperation_name {
		if name == "POD_OPERATION_UNSPECIFIED" {
			name = "POD_OPERATION_UNKNOWN"
		}
		if got := "POD_OPERATION_" + revision.Op(number).String(); got != name {
			t.Errorf("op %d is %s; want %s", number, got, name)
		}
	}
}
