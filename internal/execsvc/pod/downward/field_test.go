package downward

import (
	"strconv"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"
)

func TestField(t *testing.T) {
	pod := &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: "web", Namespace: "shop", UID: "b70b3269-858e-12a8-9cf2-1232a194038a",
			Labels:      map[string]string{"tier": "front", "app": "web", "example.org/a.b": "c"},
			Annotations: map[string]string{"Www.example.org/test": "1", "json": "{\"a\":\n1}", "UPPER": "x"},
		},
		Spec: v1.PodSpec{NodeName: "n1", ServiceAccountName: "robot"},
	}
	facts := Facts{Node: "other", PodIPs: []string{"10.0.0.7", "fd00::7"}, HostIPs: []string{"192.0.2.1", "2001:db8::1"}}
	for path, want := range map[string]string{
		"metadata.name":                                "web",
		"metadata.namespace":                           "shop",
		"metadata.uid":                                 "b70b3269-858e-12a8-9cf2-1232a194038a",
		"metadata.labels":                              "app=\"web\"\nexample.org/a.b=\"c\"\ntier=\"front\"",
		"metadata.labels['tier']":                      "front",
		"metadata.labels['example.org/a.b']":           "c",
		"metadata.labels['none']":                      "",
		"metadata.annotations":                         "UPPER=\"x\"\nWww.example.org/test=\"1\"\njson=\"{\\\"a\\\":\\n1}\"",
		"metadata.annotations['Www.example.org/test']": "1",
		"metadata.annotations['json']":                 "{\"a\":\n1}",
		"spec.nodeName":                                "n1",
		"spec.host":                                    "n1",
		"spec.serviceAccountName":                      "robot",
		"status.podIP":                                 "10.0.0.7",
		"status.podIPs":                                "10.0.0.7,fd00::7",
		"status.hostIP":                                "192.0.2.1",
		"status.hostIPs":                               "192.0.2.1,2001:db8::1",
	} {
		if got, err := Field(pod, path, facts); err != nil || got != want {
			t.Errorf("%s is %q, %v; want %q", path, got, err, want)
		}
	}
}

func TestFieldOfWhatIsNotKnown(t *testing.T) {
	pod := &v1.Pod{}
	for path, want := range map[string]string{
		"metadata.labels": "", "metadata.annotations": "", "status.podIP": "", "status.podIPs": "", "spec.nodeName": "n1",
	} {
		if got, err := Field(pod, path, Facts{Node: "n1"}); err != nil || got != want {
			t.Errorf("%s is %q, %v; want %q", path, got, err, want)
		}
	}
	for path, want := range map[string]string{
		"status.hostIP":                        "address isn't known",
		"status.hostIPs":                       "address isn't known",
		"":                                     "unsupported fieldPath",
		"metadata.whoops":                      "unsupported fieldPath: metadata.whoops",
		"spec.restartPolicy":                   "unsupported fieldPath",
		"status.phase":                         "unsupported fieldPath",
		"metadata.notexisting['something']":    "does not support subscript",
		"spec.nodeName['a']":                   "does not support subscript",
		"metadata.annotations['invalid~key']":  "invalid key subscript in metadata.annotations",
		"metadata.labels['Www.k8s.io/test']":   "invalid key subscript in metadata.labels",
		"metadata.labels['']":                  "invalid key subscript",
		"metadata.labels[' ']":                 "invalid key subscript",
		"metadata.labels['a']b']":              "invalid key subscript",
		"metadata.labels['['key']":             "invalid key subscript",
		"metadata.labels[ 'key' ]":             "unsupported fieldPath",
		"metadata.labels[]":                    "unsupported fieldPath",
		"metadata.labels[']":                   "unsupported fieldPath",
		"metadata.labels[\"key\"]":             "unsupported fieldPath",
		"metadata.labels['key']foo":            "unsupported fieldPath",
		"['key']":                              "unsupported fieldPath",
		"metadata.annotations['a/b/c']":        "invalid key subscript",
		"metadata.annotations['-starts-wrong]": "unsupported fieldPath",
	} {
		if got, err := Field(pod, path, Facts{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s is %q, %v; want an error with %q", path, got, err, want)
		}
	}
}

// TestLinesCanBeReadBack: for any content, each key has its line, and the value can be parsed from it.
func TestLinesCanBeReadBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		annotations := rapid.MapOf(rapid.StringMatching(`[a-z]([a-z./-]{0,8}[a-z])?`), rapid.String()).Draw(t, "annotations")
		text, err := Field(&v1.Pod{ObjectMeta: metav1.ObjectMeta{Annotations: annotations}}, "metadata.annotations", Facts{})
		if err != nil {
			t.Fatal(err)
		}
		last, count := "", 0
		for line := range strings.Lines(text) {
			key, quoted, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "=")
			value, err := strconv.Unquote(quoted)
			if err != nil || value != strings.ToValidUTF8(annotations[key], "\uFFFD") {
				t.Fatalf("line %q says %q, %v", line, value, err)
			}
			if key <= last {
				t.Fatalf("%q comes after %q", key, last)
			}
			last, count = key, count+1
		}
		if count != len(annotations) {
			t.Fatalf("%d lines for %d annotations", count, len(annotations))
		}
	})
}
