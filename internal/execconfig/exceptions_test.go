package execconfig

import (
	"os"
	"strings"
	"testing"
)

// TestExceptions: a default that isn't the kubelet's is named unless the field or its flag is given, and docs/fields.md lists it.
func TestExceptions(t *testing.T) {
	doc, err := os.ReadFile("../../docs/fields.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(doc), "## Exceptions\n")
	table, _, _ = strings.Cut(table, "## Fields\n")
	for name, test := range map[string]struct {
		text string
		args []string
		want []string
	}{
		"defaults":         {want: []string{"failCgroupV1", "serializeImagePulls"}},
		"fields":           {text: "failCgroupV1: false\nserializeImagePulls: false\n"},
		"flags":            {args: []string{"--fail-cgroupv1=false", "--serialize-image-pulls"}},
		"no cgroups":       {text: "cgroupsPerQOS: false\n", want: []string{"failCgroupV1", "serializeImagePulls", "enforceNodeAllocatable"}},
		"no cgroups, flag": {args: []string{"--cgroups-per-qos=false"}, want: []string{"failCgroupV1", "serializeImagePulls", "enforceNodeAllocatable"}},
		"no cgroups, enforced": {
			text: "cgroupsPerQOS: false\nenforceNodeAllocatable: [none]\n", want: []string{"failCgroupV1", "serializeImagePulls"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			s, err := settle(t, test.text, test.args...)
			if err != nil {
				t.Fatal(err)
			}
			if len(s.Exceptions) != len(test.want) {
				t.Fatalf("exceptions %q; want those of %q", s.Exceptions, test.want)
			}
			for i, field := range test.want {
				_, reason, _ := strings.Cut(s.Exceptions[i], ": ")
				if !strings.HasPrefix(s.Exceptions[i], field+" is ") || !strings.Contains(table, "`"+field+"`") || reason == "" {
					t.Errorf("exception %q; want one of %s, which docs/fields.md lists:\n%s", s.Exceptions[i], field, table)
				}
			}
		})
	}
}
