package manifest

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
)

// checkOrigin checks the properties of every Origin that Parse returns.
func checkOrigin(t *testing.T, o *Origin) {
	t.Helper()
	errors := 0
	for _, f := range o.Findings {
		if f.Severity == Error {
			errors++
		}
		if f.Message == "" || strings.ContainsAny(f.Message+f.Field, "\n\r\x00") {
			t.Errorf("finding isn't one line: %+v", f)
		}
		if r := f.Redacted(); r.Message == "" || r.Unquoted != "" || !strings.HasPrefix(f.Field, r.Field) || r != r.Redacted() {
			t.Errorf("finding %+v is redacted to %+v", f, r)
		}
	}
	if o.Held != (errors > 0) {
		t.Errorf("Held is %v with %d errors", o.Held, errors)
	}
	for _, p := range o.Pods {
		checkPod(t, p)
	}
	for _, object := range o.Objects {
		checkObject(t, object)
	}
}

func checkObject(t *testing.T, o *Object) {
	t.Helper()
	key := o.Key()
	if (o.ConfigMap == nil) == (o.Secret == nil) || key.Name == "" || key.Namespace == "" || o.Digest == "" || o.Document < 1 {
		t.Errorf("object %s of document %d, digest %q, isn't one", key, o.Document, o.Digest)
	}
	if o.Secret != nil && (o.Secret.StringData != nil || o.Secret.Type == "") {
		t.Errorf("%s isn't as an API server would have it", key)
	}
	if o.Meta().UID != "" || o.Meta().ResourceVersion != "" {
		t.Errorf("%s has what only an API server gives", key)
	}
}

func checkPod(t *testing.T, p *Pod) {
	t.Helper()
	for what, value := range map[string]string{
		"UID": string(p.UID), "name": p.Name, "namespace": p.Namespace, "nodeName": p.Spec.NodeName,
		"spec digest": p.SpecDigest, "status digest": p.StatusDigest,
	} {
		if value == "" {
			t.Errorf("pod %s/%s has no %s", p.Namespace, p.Name, what)
		}
	}
	if p.Document < 1 {
		t.Errorf("pod %s/%s is of document %d", p.Namespace, p.Name, p.Document)
	}
	if p.Annotations[HashAnnotation] != string(p.UID) {
		t.Errorf("pod %s/%s has the hash %q", p.Namespace, p.Name, p.Annotations[HashAnnotation])
	}
	if p.DeletionTimestamp != nil || p.Status.Phase != v1.PodPending {
		t.Errorf("pod %s/%s isn't new", p.Namespace, p.Name)
	}
	text, err := json.Marshal(p.Pod)
	if err != nil {
		t.Fatal(err)
	}
	if len(text) > MaxPodSize {
		t.Errorf("pod %s/%s has %d bytes", p.Namespace, p.Name, len(text))
	}
	again := &v1.Pod{}
	if err := json.Unmarshal(text, again); err != nil {
		t.Fatal(err)
	}
	if spec, _ := specDigests(t, again); spec != p.SpecDigest {
		t.Errorf("pod %s/%s has another spec digest after a round trip through JSON", p.Namespace, p.Name)
	}
}

func specDigests(t *testing.T, pod *v1.Pod) (spec, status string) {
	t.Helper()
	spec, err := SpecDigest(pod)
	if err != nil {
		t.Fatal(err)
	}
	status, err = StatusDigest(pod)
	if err != nil {
		t.Fatal(err)
	}
	return spec, status
}

// checkDeterministic checks that parsing again gives the same.
func checkDeterministic(t *testing.T, data []byte, opts Options, first *Origin) {
	t.Helper()
	if again := Parse(data, opts); !reflect.DeepEqual(first, again) {
		t.Errorf("another result the second time:\n%s\n%s", summary(first), summary(again))
	}
}
