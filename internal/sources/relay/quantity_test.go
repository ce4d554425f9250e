package relay

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protowire"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

// placeholder is a quantity whose text is replaced by another one of the same length.
const placeholder = "123456789012"

// withQuantities returns encoded pods with a placeholder in each place where a pod has quantities.
func withQuantities(t *testing.T) map[string][]byte {
	t.Helper()
	q := resource.MustParse(placeholder)
	list := v1.ResourceList{"cpu": q}
	container := func(c v1.Container) v1.PodSpec {
		c.Name, c.Image = "c", "i"
		return v1.PodSpec{Containers: []v1.Container{c}}
	}
	out := map[string][]byte{}
	for name, spec := range map[string]v1.PodSpec{
		"limits":     container(v1.Container{Resources: v1.ResourceRequirements{Limits: list}}),
		"requests":   container(v1.Container{Resources: v1.ResourceRequirements{Requests: list}}),
		"overhead":   {Overhead: list},
		"pod limits": {Resources: &v1.ResourceRequirements{Limits: list}},
		"emptyDir":   {Volumes: []v1.Volume{{Name: "v", VolumeSource: v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{SizeLimit: &q}}}}},
		"divisor": container(v1.Container{Env: []v1.EnvVar{{Name: "E", ValueFrom: &v1.EnvVarSource{
			ResourceFieldRef: &v1.ResourceFieldSelector{Resource: "limits.cpu", Divisor: q},
		}}}}),
		"claim": {Volumes: []v1.Volume{{Name: "v", VolumeSource: v1.VolumeSource{Ephemeral: &v1.EphemeralVolumeSource{
			VolumeClaimTemplate: &v1.PersistentVolumeClaimTemplate{Spec: v1.PersistentVolumeClaimSpec{
				Resources: v1.VolumeResourceRequirements{Requests: list},
			}},
		}}}}},
	} {
		pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "default", UID: "u"}, Spec: spec}
		data, err := pod.Marshal()
		if err != nil {
			t.Fatal(err)
		}
		out[name] = data
	}
	return out
}

// TestHugeQuantities: a quantity that takes minutes to parse is rejected without parsing, wherever a pod has
// one.
func TestHugeQuantities(t *testing.T) {
	for name, data := range withQuantities(t) {
		for _, text := range []string{"1e-000009999", "1e-999999999", "1E+999999999", "-1.5e9999999", "1e0009999999", ".1e-99999999"} {
			began := time.Now()
			_, err := decode(&podconfigv1.Pod{
				Ref: &podconfigv1.PodRef{Uid: "u", Namespace: "default", Name: "web"}, Source: "file", SpecDigest: "s", StatusDigest: "t",
				Content: &podconfigv1.Pod_Protobuf{Protobuf: bytes.ReplaceAll(data, []byte(placeholder), []byte(text))},
			})
			if !errors.Is(err, errQuantity) {
				// The first text is parsed quickly. The others would take minutes.
				t.Fatalf("%s of %s: %v; want %v", name, text, err, errQuantity)
			}
			if took := time.Since(began); took > 5*time.Second {
				t.Errorf("%s of %s is refused after %v", name, text, took)
			}
		}
		if err := checkQuantities(data); err != nil {
			t.Errorf("%s of %s: %v; want it taken", name, placeholder, err)
		}
	}
	// A text that only looks like a quantity is accepted.
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "1e99999", Labels: map[string]string{"1e99999": "1e99999"}},
		Spec: v1.PodSpec{Containers: []v1.Container{{Name: "1e99999", Image: "1e99999"}}}}
	data, err := pod.Marshal()
	if err == nil {
		err = checkQuantities(data)
	}
	if err != nil {
		t.Errorf("a pod with names like numbers: %v; want it taken", err)
	}
}

// TestHugeQuantityInBadEncoding: the decoder of pods takes the number of a field modulo 2^32, which protobuf
// forbids. A quantity in such a field is rejected too.
func TestHugeQuantityInBadEncoding(t *testing.T) {
	data, err := (&v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "default", UID: "u"}}).Marshal()
	if err != nil {
		t.Fatal(err)
	}
	field := func(number uint64, value []byte) []byte {
		return protowire.AppendBytes(protowire.AppendVarint(nil, number<<3|uint64(protowire.BytesType)), value)
	}
	quantity := field(1, []byte("1e2"))
	overhead := field(1<<32+32, append(field(1, []byte("cpu")), field(2, quantity)...))
	data = append(data, field(2, overhead)...)
	pod := &v1.Pod{}
	if err := pod.Unmarshal(data); err != nil || len(pod.Spec.Overhead) == 0 {
		t.Fatalf("the decoder reads the pod as %v, %v; want it with an overhead", pod.Spec.Overhead, err)
	}
	_, err = decode(&podconfigv1.Pod{
		Ref: &podconfigv1.PodRef{Uid: "u", Namespace: "default", Name: "web"}, Source: "file", SpecDigest: "s", StatusDigest: "t",
		Content: &podconfigv1.Pod_Protobuf{Protobuf: data},
	})
	if !errors.Is(err, errEncoding) {
		t.Errorf("error %v; want %v", err, errEncoding)
	}
}

// TestHugeNumber walks through texts.
func TestHugeNumber(t *testing.T) {
	for text, want := range map[string]bool{
		"": false, "1": false, "100m": false, "1e3": false, "1e-9": false, "12E": false, "1Ei": false, "1.5Gi": false, "1e999": false,
		"1e0001": false, "1e1000": true, "1e-1000": true, "+1E+01000": true, "e": false,
		strings.Repeat("1", 64): false, strings.Repeat("1", 65): true,
	} {
		if got := isHugeNumber([]byte(text)); got != want {
			t.Errorf("isHugeNumber(%q) = %v; want %v", text, got, want)
		}
	}
}
