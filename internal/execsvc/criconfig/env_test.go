package criconfig

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
)

func TestExpand(t *testing.T) {
	values := map[string]string{"A": "1", "B": "two", "EMPTY": "", "REF": "$(A)", "A B": "spaced"}
	for text, want := range map[string]string{
		"":                   "",
		"plain":              "plain",
		"$(A)":               "1",
		"x$(A)y$(B)z":        "x1ytwoz",
		"$(EMPTY)":           "",
		"$(MISSING)":         "$(MISSING)",
		"$(MISSING)$(A)":     "$(MISSING)1",
		"$$(A)":              "$(A)",
		"$$$(A)":             "$1",
		"$$$$(A)":            "$$(A)",
		"$$":                 "$",
		"$":                  "$",
		"a$":                 "a$",
		"$A":                 "$A",
		"${A}":               "${A}",
		"$(A":                "$(A",
		"$(A$(B)":            "$(A$(B)",
		"$()":                "$()",
		"$(":                 "$(",
		"$(REF)":             "$(A)",
		"$(A B)":             "spaced",
		"cost: $5 $(A) 100%": "cost: $5 1 100%",
	} {
		if got := expand(text, values); got != want {
			t.Errorf("expand(%q) = %q, want %q", text, got, want)
		}
	}
}

func TestEnvironmentSeesEarlierOnly(t *testing.T) {
	list, values, err := environment(&v1.Container{Env: []v1.EnvVar{
		{Name: "EARLY", Value: "$(LATE)"}, {Name: "LATE", Value: "1"}, {Name: "BOTH", Value: "$(EARLY)-$(LATE)"},
		{Name: "LATE", Value: "$(LATE)2"},
	}})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, kv := range list {
		got = append(got, kv.GetKey()+"="+string(kv.GetValue()))
	}
	if diff := cmp.Diff([]string{"EARLY=$(LATE)", "LATE=1", "BOTH=$(LATE)-1", "LATE=12"}, got); diff != "" {
		t.Errorf("environment (-want +got):\n%s", diff)
	}
	if values["LATE"] != "12" {
		t.Errorf("for the command LATE is %q, want the last one, 12", values["LATE"])
	}
}

func TestEnvironmentRefusesWhatItCantResolve(t *testing.T) {
	for name, source := range map[string]*v1.EnvVarSource{
		"fieldRef":         {FieldRef: &v1.ObjectFieldSelector{}},
		"resourceFieldRef": {ResourceFieldRef: &v1.ResourceFieldSelector{}},
		"configMapKeyRef":  {ConfigMapKeyRef: &v1.ConfigMapKeySelector{}},
		"secretKeyRef":     {SecretKeyRef: &v1.SecretKeySelector{}},
		"fileKeyRef":       {FileKeyRef: &v1.FileKeySelector{}},
	} {
		_, _, err := environment(&v1.Container{Env: []v1.EnvVar{{Name: "TOKEN", ValueFrom: source}}})
		if err == nil || !strings.Contains(err.Error(), "TOKEN") || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: error %v doesn't name the variable and its source", name, err)
		}
	}
	if _, _, err := environment(&v1.Container{EnvFrom: []v1.EnvFromSource{{}}}); err == nil {
		t.Error("envFrom is lost in silence")
	}
}
