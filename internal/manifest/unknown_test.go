package manifest

import (
	"errors"
	"testing"
)

// TestObjectsUnknown: an unusable part leaves open which objects an origin defines only if it may be one, or several.
func TestObjectsUnknown(t *testing.T) {
	const good = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: good\n---\n"
	for _, c := range []struct {
		name, data string
		want       bool
	}{
		{"nothing wrong", good, false},
		{"a bad Pod", good + "apiVersion: v1\nkind: Pod\nmetadata:\n  name: web\n", false},
		{"another kind", good + "apiVersion: apps/v1\nkind: Deployment\n", false},
		{"a bad item of a PodList", `{"apiVersion":"v1","kind":"PodList","items":[{"metadata":{}}]}`, false},
		{"an item that isn't a Pod", `{"apiVersion":"v1","kind":"PodList","items":[{"kind":"Secret","metadata":{}}]}`, true},
		{"a bad ConfigMap", good + "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: UPPER\n", true},
		{"a bad Secret", "apiVersion: v1\nkind: Secret\n", true},
		{"a Secret of a misspelt kind", "apiVersion: v1\nkind: secret\n", true},
		{"a list of Secrets", "apiVersion: v1\nkind: SecretList\nitems: []\n", true},
		{"a list of anything", "apiVersion: v1\nkind: List\nitems: []\n", true},
		{"no kind", "apiVersion: v1\nstringData: {}\n", true},
		{"no YAML", "kind: Pod\n\t{", true},
		{"nothing", "", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			o := Parse([]byte(c.data), Options{Origin: "u", OriginKind: URLKind, Node: "n"})
			if o.ObjectsUnknown != c.want || o.ObjectsUnknown && !o.Held {
				t.Errorf("unknown %v, held %v with findings %+v; want unknown %v", o.ObjectsUnknown, o.Held, o.Findings, c.want)
			}
		})
	}
	if o := Broken("u", errors.New("it can't be read")); !o.ObjectsUnknown {
		t.Error("of an origin that can't be read the objects are known")
	}
}
