package criconfig

import (
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
		if got := Expand(text, values); got != want {
			t.Errorf("Expand(%q) = %q, want %q", text, got, want)
		}
	}
}

// Of a name that occurs twice the last value counts in the command, and the runtime gets both, in order.
func TestEnvironmentOfACommand(t *testing.T) {
	got, err := ContainerConfig(ContainerInput{
		Pod: webPod(), Container: &v1.Container{Command: []string{"$(A)", "$(B)"}},
		Env: []EnvVar{{"A", "1"}, {"B", "$(A)"}, {"A", "2"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"2", "$(A)"}, got.GetCommand()); diff != "" {
		t.Errorf("command (-want +got):\n%s", diff)
	}
	var env []string
	for _, kv := range got.GetEnvs() {
		env = append(env, kv.GetKey()+"="+string(kv.GetValue()))
	}
	if diff := cmp.Diff([]string{"A=1", "B=$(A)", "A=2"}, env); diff != "" {
		t.Errorf("environment (-want +got):\n%s", diff)
	}
}
