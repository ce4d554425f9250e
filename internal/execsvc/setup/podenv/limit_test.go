package podenv

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	"pgregory.net/rapid"

	"github.com/podstream/podstream/internal/execsvc/pod/criconfig"
)

// TestSizeIsBounded: variables that double each other, or repeat a large source, are rejected before memory is
// allocated for them.
func TestSizeIsBounded(t *testing.T) {
	doubling := []v1.EnvVar{plain("V0", "0123456789")}
	for i := range 60 {
		doubling = append(doubling, plain(fmt.Sprintf("V%d", i+1), fmt.Sprintf("$(V%d)$(V%d)", i, i)))
	}
	wide := []v1.EnvVar{plain("A", strings.Repeat("x", 1<<20)), plain("B", strings.Repeat("$(A)", 1<<17))}
	var many []v1.EnvFromSource
	for i := range 1 << 17 {
		many = append(many, fromSecret(strings.Repeat("p", 50)+strconv.Itoa(i), "s", nil))
	}
	for want, in := range map[string]Input{
		"environment variable V19:": input(nil, doubling...),
		"environment variable B:":   input(nil, wide...),
		"environment variable ppp":  input(many),
	} {
		env, _, err := Of(in)
		if err == nil || !strings.HasPrefix(err.Error(), want) || !strings.Contains(err.Error(), "6291456 bytes") {
			t.Errorf("%d variables, %v; want an error with %q", len(env), err, want)
		}
	}
	// A replaced value doesn't count.
	big := plain("A", strings.Repeat("x", 4<<20))
	if env, _, err := Of(input(nil, big, plain("A", ""), big)); err != nil || len(env) != 1 {
		t.Errorf("%d variables, %v", len(env), err)
	}
}

// TestLaws: for any references each name occurs once, at the place of its first definition, with the value of its
// expansion by all earlier variables.
func TestLaws(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		name := rapid.SampledFrom([]string{"A", "B", "C", "D"})
		text := rapid.Map(rapid.SliceOfN(rapid.SampledFrom([]string{"$", "$$", "(", ")", "$(A)", "$(B)", "$(C)", "$(X)", "x", "$("}), 0, 6),
			func(parts []string) string { return strings.Join(parts, "") })
		variable := rapid.Custom(func(t *rapid.T) v1.EnvVar { return plain(name.Draw(t, "name"), text.Draw(t, "value")) })
		list := rapid.SliceOfN(variable, 0, 8).Draw(t, "env")

		values, position := map[string]string{}, map[string]int{}
		var want []criconfig.EnvVar
		for _, v := range list {
			value := criconfig.Expand(v.Value, values)
			if size := expandedSize(v.Value, values); size < len(value) || size > len(value)+len(v.Value) {
				t.Fatalf("%q has %d bytes, expected were %d", value, len(value), size)
			}
			values[v.Name] = value
			if at, ok := position[v.Name]; ok {
				want[at].Value = value
				continue
			}
			position[v.Name] = len(want)
			want = append(want, criconfig.EnvVar{Name: v.Name, Value: value})
		}
		env, _, err := Of(input(nil, list...))
		if err != nil {
			t.Fatal(err)
		}
		if shown(env) != shown(want) {
			t.Fatalf("%s, want %s", shown(env), shown(want))
		}
	})
}

func BenchmarkTenThousandVariables(b *testing.B) {
	var list []v1.EnvVar
	for i := range 10_000 {
		list = append(list, plain(fmt.Sprintf("V%d", i), fmt.Sprintf("$(V%d)-value", i/2)))
	}
	in := input(nil, list...)
	for b.Loop() {
		if env, _, err := Of(in); err != nil || len(env) != len(list) {
			b.Fatal(len(env), err)
		}
	}
}
