package eviction

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/resource"
)

// words formats thresholds as "signal amount grace +reclaim", for a capacity of 1000.
func words(all []Threshold) []string {
	out := []string{}
	for _, t := range all {
		thousand := *resource.NewQuantity(1000, resource.DecimalSI)
		least, more := t.value.of(thousand), t.minReclaim.of(thousand)
		out = append(out, fmt.Sprintf("%s %s %v +%s", t.signal, &least, t.gracePeriod, &more))
	}
	return out
}

func TestParse(t *testing.T) {
	for name, c := range map[string]struct {
		s    Settings
		want []string
	}{
		"the kubelet's defaults": {Settings{}, []string{
			"memory.available 100Mi 0s +0", "allocatableMemory.available 100Mi 0s +0", "nodefs.available 100 0s +0", "nodefs.inodesFree 50 0s +0",
			"imagefs.available 150 0s +0", "imagefs.inodesFree 50 0s +0", "containerfs.available 100 0s +0", "containerfs.inodesFree 50 0s +0",
		}},
		"none":                         {Settings{Hard: map[string]string{}}, []string{}},
		"percentages that disable":     {Settings{Hard: map[string]string{"nodefs.available": "0%", "imagefs.available": "100%"}}, []string{}},
		"containerfs is ignored":       {Settings{Hard: map[string]string{"containerfs.available": "1%"}}, []string{}},
		"allocatableMemory is ignored": {Settings{Hard: map[string]string{"allocatableMemory.available": "1Gi"}}, []string{}},
		"no grace period and no minimum reclaim": {
			Settings{
				Hard: map[string]string{}, Soft: map[string]string{"pid.available": "7"}, SoftGracePeriod: map[string]string{"pid.available": "0s"},
				MinimumReclaim: map[string]string{"pid.available": "0%"},
			},
			[]string{"pid.available 7 0s +0"},
		},
		"all": {
			Settings{
				Hard:            map[string]string{"pid.available": "10%", "memory.available": "1Gi"},
				Soft:            map[string]string{"memory.available": "2Gi", "nodefs.available": "12.5%"},
				SoftGracePeriod: map[string]string{"memory.available": "1m30s", "nodefs.available": "2m"},
				MinimumReclaim:  map[string]string{"memory.available": "0", "nodefs.available": "5%"},
			},
			[]string{
				"memory.available 1Gi 0s +0", "memory.available 2Gi 1m30s +0", "allocatableMemory.available 1Gi 0s +0",
				"nodefs.available 125 2m0s +50", "containerfs.available 125 2m0s +50", "pid.available 100 0s +0",
			},
		},
	} {
		got, err := Parse(c.s)
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if diff := cmp.Diff(c.want, words(got)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestParseRejectsInvalidSettings(t *testing.T) {
	for says, s := range map[string]Settings{
		"evictionHard[cpu.available]: unknown signal":                           {Hard: map[string]string{"cpu.available": "1"}},
		"evictionHard[memory.available]: it is \"0\"":                           {Hard: map[string]string{"memory.available": "0"}},
		"evictionHard[memory.available]: \"-1\"":                                {Hard: map[string]string{"memory.available": "-1"}},
		"evictionHard[memory.available]: \"101%\"":                              {Hard: map[string]string{"memory.available": "101%"}},
		"evictionHard[memory.available]: \"NaN%\"":                              {Hard: map[string]string{"memory.available": "NaN%"}},
		"evictionHard[memory.available]: \"some\"":                              {Hard: map[string]string{"memory.available": "some"}},
		"evictionSoft[memory.available]: it needs a grace period":               {Soft: map[string]string{"memory.available": "1Gi"}},
		"evictionSoftGracePeriod[memory.available]: it is \"long\"":             {SoftGracePeriod: map[string]string{"memory.available": "long"}},
		"evictionSoftGracePeriod[memory.available]: it is \"-1s\"":              {SoftGracePeriod: map[string]string{"memory.available": "-1s"}},
		"evictionMinimumReclaim[disk]: unknown signal":                          {MinimumReclaim: map[string]string{"disk": "1"}},
		"evictionMinimumReclaim[nodefs.available]: \"-1%\": it must be from 0%": {MinimumReclaim: map[string]string{"nodefs.available": "-1%"}},
		"evictionHard[nodefs.available]: it is \"0.0%\"":                        {Hard: map[string]string{"nodefs.available": "0.0%"}},
	} {
		if _, err := Parse(s); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("error %v; want one that contains %q", err, says)
		}
	}
}
