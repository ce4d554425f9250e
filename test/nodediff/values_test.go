//go:build kubelet

package nodediff

import (
	"fmt"
	"testing"
)

// TestValues starts both agents with invalid values of fields: both refuse them and name the field.
func TestValues(t *testing.T) {
	kubelet, podstream := Seen{}, Seen{}
	for _, v := range Values() {
		for agent, seen := range map[Agent]Seen{Kubelet: kubelet, Podstream: podstream} {
			fields, err := v.Try(t.Context(), t.TempDir(), *programs, agent)
			if err != nil {
				t.Fatal(err)
			}
			seen[v.section()] = fields
		}
		if refused := kubelet[v.section()]["refused"] == "true"; refused == v.Valid {
			t.Errorf("%s: the kubelet refuses it: %v", v.Config, refused)
		}
	}
	table := judge(t, "values", kubelet, podstream)
	fmt.Print(Rows([]*Table{table}))
	wantApplied(t, []*Table{table}, valueRules)
}

// section is the name of what is seen with the value.
func (v *Value) section() string { return "value " + v.Config }
