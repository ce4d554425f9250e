package manifest

import (
	"bytes"
	"encoding/json"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"pgregory.net/rapid"
)

// examplePod has three containers, and something of everything that digests treat in their own way.
func examplePod() *v1.Pod {
	container := func(name string) v1.Container {
		return v1.Container{
			Name: name, Image: "registry.example:5000/" + name + ":1.2.3", Command: []string{"/bin/" + name, "--listen", ":8080"},
			Env: []v1.EnvVar{
				{Name: "A", Value: "<a> & \"b\"\n\u2028é"},
				{Name: "NODE", ValueFrom: &v1.EnvVarSource{FieldRef: &v1.ObjectFieldSelector{APIVersion: "v1", FieldPath: "spec.nodeName"}}},
			},
			Ports:        []v1.ContainerPort{{Name: "http", ContainerPort: 8080, Protocol: v1.ProtocolTCP}},
			VolumeMounts: []v1.VolumeMount{{Name: "data", MountPath: "/data"}, {Name: "conf", MountPath: "/etc/conf", ReadOnly: true}},
			Resources: v1.ResourceRequirements{
				Requests: v1.ResourceList{v1.ResourceCPU: resource.MustParse("100m"), v1.ResourceMemory: resource.MustParse("64Mi")},
				Limits:   v1.ResourceList{v1.ResourceMemory: resource.MustParse("128Mi")},
			},
			LivenessProbe: &v1.Probe{
				ProbeHandler:  v1.ProbeHandler{TCPSocket: &v1.TCPSocketAction{}},
				PeriodSeconds: 10,
			},
			ImagePullPolicy: v1.PullIfNotPresent, TerminationMessagePath: "/dev/termination-log",
		}
	}
	bare := container("bare")
	bare.Resources = v1.ResourceRequirements{}
	return &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: "web-node1", Namespace: "default", UID: "56",
			Labels:      map[string]string{"app": "web", "tier": "front"},
			Annotations: map[string]string{HashAnnotation: "56", SourceAnnotation: "file", SeenAnnotation: "now", "note": "n"},
		},
		Spec: v1.PodSpec{
			NodeName: "node1", RestartPolicy: v1.RestartPolicyAlways, SecurityContext: &v1.PodSecurityContext{},
			TerminationGracePeriodSeconds: ptr.To(int64(30)),
			Volumes: []v1.Volume{
				{Name: "data", VolumeSource: v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{}}},
				{Name: "conf", VolumeSource: v1.VolumeSource{ConfigMap: &v1.ConfigMapVolumeSource{DefaultMode: ptr.To(int32(420))}}},
			},
			Containers:  []v1.Container{container("web"), container("proxy"), bare},
			Tolerations: []v1.Toleration{{Operator: v1.TolerationOpExists, Effect: v1.TaintEffectNoExecute}},
		},
		Status: v1.PodStatus{Phase: v1.PodPending},
	}
}

// TestGoldenDigest: consumers keep digests across restarts and upgrades, so these values must never be changed.
func TestGoldenDigest(t *testing.T) {
	spec, status := specDigests(t, examplePod())
	if want := "sha256:628bb9987a82d1c4bf0d2ebf5a66945b1d467ff73e0e4c6c3409c1a05a32d379"; spec != want {
		t.Errorf("spec digest is %s, want %s", spec, want)
	}
	if want := "sha256:b07d4b6109f7a4de8a54d2b3ecf6913e07eb25f55431684b92bb75a4eb714f7f"; status != want {
		t.Errorf("status digest is %s, want %s", status, want)
	}
	var text string
	if err := json.Unmarshal([]byte(escapes), &text); err != nil {
		t.Fatal(err)
	}
	spec, status = specDigests(t, &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{"note": text, text: "key"}},
		Status:     v1.PodStatus{Message: text},
	})
	if want := "sha256:ec65dbbe50c13eec9b3296d8ce8ace38e2289f544c16f8cde8829b616e0a2334"; spec != want {
		t.Errorf("spec digest of escapes is %s, want %s", spec, want)
	}
	if want := "sha256:a60122d335f799728d2bb6cf0b375d31edc2859eba8ec7b66f50bd764d2239d5"; status != want {
		t.Errorf("status digest of escapes is %s, want %s", status, want)
	}
	spec, status = specDigests(t, &v1.Pod{})
	if empty := "sha256:44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a"; spec != empty || status != empty {
		t.Errorf("the digests of nothing are %s and %s, want that of {}", spec, status)
	}
}

func TestCanonicalText(t *testing.T) {
	pod := &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"b": "<>", "a": "\u2028"}, DeletionGracePeriodSeconds: ptr.To(int64(0))},
		Spec:       v1.PodSpec{Containers: []v1.Container{{Name: "c"}}, SecurityContext: &v1.PodSecurityContext{}},
	}
	text, err := canonical(&digested{DeletionGracePeriodSeconds: pod.DeletionGracePeriodSeconds, Labels: pod.Labels, Spec: &pod.Spec}, true)
	if err != nil {
		t.Fatal(err)
	}
	want := `{"deletionGracePeriodSeconds":0,"labels":{"a":"\u2028","b":"<>"},"spec":{"containers":[{"name":"c"}],"securityContext":{}}}`
	if diff := cmp.Diff(want, string(text)); diff != "" {
		t.Error(diff)
	}
}

// TestDigestOfChange: a digest changes exactly with what a consumer has to act upon.
func TestDigestOfChange(t *testing.T) {
	now := metav1.NewTime(time.Unix(1700000000, 0))
	for _, c := range []struct {
		name         string
		change       func(*v1.Pod)
		spec, status bool
	}{
		{"nothing", func(*v1.Pod) {}, false, false},
		{"config.seen", func(p *v1.Pod) { p.Annotations[SeenAnnotation] = "later" }, false, false},
		{"config.source", func(p *v1.Pod) { p.Annotations[SourceAnnotation] = "api" }, false, false},
		{"config.mirror", func(p *v1.Pod) { p.Annotations[MirrorAnnotation] = "56" }, false, false},
		{"name, namespace, UID", func(p *v1.Pod) { p.Name, p.Namespace, p.UID = "a", "b", "c" }, false, false},
		{"resourceVersion", func(p *v1.Pod) { p.ResourceVersion = "2" }, false, false},
		{"creationTimestamp", func(p *v1.Pod) { p.CreationTimestamp = now }, false, false},
		{"finalizers", func(p *v1.Pod) { p.Finalizers = []string{"a/b"} }, false, false},
		{"ownerReferences", func(p *v1.Pod) { p.OwnerReferences = []metav1.OwnerReference{{Name: "a"}} }, false, false},
		{"nil for empty", func(p *v1.Pod) { p.Spec.InitContainers = []v1.Container{} }, false, false},
		{"empty pod resources", func(p *v1.Pod) { p.Spec.Resources = &v1.ResourceRequirements{} }, false, false},
		{"status", func(p *v1.Pod) { p.Status.PodIP = "10.0.0.1" }, false, true},
		{"config.hash", func(p *v1.Pod) { p.Annotations[HashAnnotation] = "57" }, true, false},
		{"annotation", func(p *v1.Pod) { p.Annotations["note"] = "m" }, true, false},
		{"label", func(p *v1.Pod) { p.Labels["app"] = "db" }, true, false},
		{"no labels", func(p *v1.Pod) { p.Labels = nil }, true, false},
		{"deletionTimestamp", func(p *v1.Pod) { p.DeletionTimestamp = &now }, true, false},
		{"deletionGracePeriodSeconds", func(p *v1.Pod) { p.DeletionGracePeriodSeconds = ptr.To(int64(0)) }, true, false},
		{"image", func(p *v1.Pod) { p.Spec.Containers[1].Image = "x" }, true, false},
		{"order of containers", func(p *v1.Pod) {
			p.Spec.Containers[0], p.Spec.Containers[1] = p.Spec.Containers[1], p.Spec.Containers[0]
		}, true, false},
		{"other empty object", func(p *v1.Pod) { p.Spec.SecurityContext = nil }, true, false},
		{"resources", func(p *v1.Pod) {
			p.Spec.Containers[2].Resources.Limits = v1.ResourceList{v1.ResourceCPU: resource.MustParse("1")}
		}, true, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			spec, status := specDigests(t, examplePod())
			changed := examplePod()
			c.change(changed)
			newSpec, newStatus := specDigests(t, changed)
			if (spec != newSpec) != c.spec || (status != newStatus) != c.status {
				t.Errorf("spec digest changed: %v, status digest changed: %v", spec != newSpec, status != newStatus)
			}
		})
	}
}

// TestDigestLeavesPod: the caller's pod isn't changed, and an equal quantity gives an equal digest however it is
// written.
func TestDigestLeavesPod(t *testing.T) {
	pod, same := examplePod(), examplePod()
	first, _ := specDigests(t, pod)
	if diff := cmp.Diff(same, pod); diff != "" {
		t.Error(diff)
	}
	pod.Spec.Containers[0].Resources.Requests[v1.ResourceCPU] = resource.MustParse("0.1")
	if second, _ := specDigests(t, pod); second != first {
		t.Error("0.1 and 100m have different digests")
	}
}

// TestCanonicalize compares with the rules of pod.proto, written down plainly.
func TestCanonicalize(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		value, compact := drawObject(t, 3), rapid.Bool().Draw(t, "compact")
		text, err := encode(value)
		if err != nil {
			t.Fatal(err)
		}
		got, err := canonicalize(text, compact)
		if err != nil {
			t.Fatal(err)
		}
		plain := reduce(value).(map[string]any)
		for k, v := range plain {
			if isEmptyObject(v) && compact {
				delete(plain, k)
			}
		}
		want, err := encode(plain)
		if err != nil {
			t.Fatal(err)
		}
		if want = bytes.TrimSpace(want); !bytes.Equal(got, want) {
			t.Fatalf("canonicalize(%s, %v)\n is   %s\n want %s", text, compact, got, want)
		}
	})
}

// TestCanonicalizeJunk: invalid JSON is an error, not a panic and not a loop.
func TestCanonicalizeJunk(t *testing.T) {
	whole := `{"a":[1,"\"\\",{"b":null}],"c":{}}`
	for i := range len(whole) {
		if out, err := canonicalize([]byte(whole[:i]), false); err == nil {
			t.Errorf("%q is taken as %q", whole[:i], out)
		}
	}
	for _, text := range []string{`{1:2}`, `{"a"}`, `[1}`, `{"a":1,}`, `["\`, `{"\x":1}`} {
		if out, err := canonicalize([]byte(text), false); err == nil {
			t.Errorf("%q is taken as %q", text, out)
		}
	}
}

func encode(value any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	err := enc.Encode(value)
	return b.Bytes(), err
}

func drawObject(t *rapid.T, depth int) map[string]any {
	keys := rapid.OneOf(rapid.SampledFrom([]string{"resources", "a", "b", "\"\n", "é", "\u2028<"}), rapid.String())
	object := map[string]any{}
	for range rapid.IntRange(0, 4).Draw(t, "members") {
		object[keys.Draw(t, "key")] = drawValue(t, depth-1)
	}
	return object
}

func drawValue(t *rapid.T, depth int) any {
	most := 6
	if depth <= 0 {
		most = 4
	}
	switch rapid.IntRange(0, most).Draw(t, "kind") {
	case 0:
		return nil
	case 1:
		return rapid.Bool().Draw(t, "bool")
	case 2:
		return rapid.Int64().Draw(t, "int")
	case 3:
		return rapid.String().Draw(t, "string")
	case 4:
		return map[string]any{}
	case 5:
		return drawObject(t, depth)
	default:
		list := []any{}
		for range rapid.IntRange(0, 3).Draw(t, "elements") {
			list = append(list, drawValue(t, depth-1))
		}
		return list
	}
}

func reduce(value any) any {
	switch value := value.(type) {
	case map[string]any:
		left := map[string]any{}
		for k, v := range value {
			if v = reduce(v); v != nil && !(k == "resources" && isEmptyObject(v)) {
				left[k] = v
			}
		}
		return left
	case []any:
		left := []any{}
		for _, v := range value {
			left = append(left, reduce(v))
		}
		return left
	default:
		return value
	}
}

func isEmptyObject(value any) bool {
	object, ok := value.(map[string]any)
	return ok && len(object) == 0
}
