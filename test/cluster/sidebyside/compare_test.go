package sidebyside

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"sigs.k8s.io/yaml"
)

// A comparison returns how two answers differ, or nothing.
type comparison func(there, here answer) string

// differ returns the message of a difference.
func differ(what string, there, here any) string {
	return fmt.Sprintf("%s: %v there, %v here", what, there, here)
}

// sameText is the comparison of the whole output.
func sameText(there, here answer) string {
	if there.stdout != here.stdout {
		return fmt.Sprintf("there:\n%s\nhere:\n%s", there.stdout, here.stdout)
	}
	return ""
}

// sameCode is the comparison of the exit codes only, which each row has.
func sameCode(answer, answer) string { return "" }

// sameLines compares the outputs without regard to the order of lines.
func sameLines(there, here answer) string {
	return sameSet("lines", strings.Split(strings.TrimSpace(there.stdout), "\n"), strings.Split(strings.TrimSpace(here.stdout), "\n"))
}

// sameDuring compares what was done while the commands ran.
func sameDuring(there, here answer) string {
	if there.during != here.during || there.during == "" {
		return differ("meanwhile", there.during, here.during)
	}
	return ""
}

func sameSet(what string, there, here []string) string {
	there, here = slices.Sorted(slices.Values(there)), slices.Sorted(slices.Values(here))
	if !slices.Equal(there, here) || len(there) == 0 {
		return fmt.Sprintf("%s:\nthere %q\nhere  %q", what, there, here)
	}
	return ""
}

// same compares what f returns of both.
func same(f func(answer) []string) comparison { return each(f, f) }

// each compares what one function returns of the first answer, and another of the second.
func each(there, here func(answer) []string) comparison {
	return func(a, b answer) string { return sameSet("values", there(a), here(b)) }
}

// contains is each for a first answer that may have more.
func contains(there, here func(answer) []string) comparison {
	return func(a, b answer) string {
		x, y := there(a), here(b)
		x = slices.DeleteFunc(x, func(value string) bool { return !slices.Contains(y, value) })
		return sameSet("values", x, y)
	}
}

// has is the comparison that requires a text of each output.
func has(text string) comparison {
	return func(there, here answer) string {
		if !strings.Contains(there.stdout, text) || !strings.Contains(here.stdout, text) {
			return fmt.Sprintf("want %q; there:\n%s\nhere:\n%s", text, there.stdout, here.stdout)
		}
		return ""
	}
}

var gap = regexp.MustCompile(`\s{2,}|\t`)

// columns returns the values of some columns of a table, one text for each row, in the rows' order. A value ends at
// its first space: "1 (5s ago)" is 1. Without one of the columns there are no values.
func columns(names ...string) func(answer) []string {
	return func(a answer) []string {
		var header, out []string
		for line := range strings.Lines(a.stdout) {
			cells := gap.Split(strings.TrimSpace(line), -1)
			if header == nil {
				header = cells
				continue
			}
			var values []string
			for _, name := range names {
				at := slices.Index(header, name)
				if at < 0 {
					return nil // a comparison requires values
				}
				value := ""
				if at < len(cells) {
					value, _, _ = strings.Cut(cells[at], " ")
				}
				values = append(values, value)
			}
			out = append(out, strings.Join(values, " "))
		}
		return out
	}
}

// inOrder compares two tables' columns, and the order of their rows.
func inOrder(names ...string) comparison {
	return func(there, here answer) string {
		if a, b := columns(names...)(there), columns(names...)(here); !slices.Equal(a, b) || len(a) == 0 {
			return fmt.Sprintf("there %q\nhere  %q", a, b)
		}
		return ""
	}
}

// find returns the first group of each match, each once, with one space in place of several.
func find(pattern string) func(answer) []string {
	expression := regexp.MustCompile(pattern)
	return func(a answer) []string {
		var out []string
		for _, match := range expression.FindAllStringSubmatch(a.stdout, -1) {
			if value := strings.Join(strings.Fields(match[1]), " "); !slices.Contains(out, value) {
				out = append(out, value)
			}
		}
		return out
	}
}

// prefixes returns the first characters of each value, so that shortened IDs can be compared.
func prefixes(n int, f func(answer) []string) func(answer) []string {
	return func(a answer) []string {
		out := f(a)
		for i, value := range out {
			out[i] = value[:min(n, len(value))]
		}
		return out
	}
}

// words returns the words of the output.
func words(a answer) []string { return strings.Fields(a.stdout) }

// sameFile compares a file that both commands leave.
func sameFile(name string) comparison {
	return func(there, here answer) string {
		a, b := there.user.read(name), here.user.read(name)
		if a != b || a == "" {
			return differ(name, a, b)
		}
		return ""
	}
}

// samePod compares the output as a pod: the object and its state, but not the instants of conditions.
func samePod(there, here answer) string {
	var a, b corev1.Pod
	if err := yaml.UnmarshalStrict([]byte(there.stdout), &a); err != nil {
		return err.Error()
	}
	if err := yaml.UnmarshalStrict([]byte(here.stdout), &b); err != nil {
		return err.Error()
	}
	for what, values := range map[string][2]any{
		"type": {a.TypeMeta, b.TypeMeta}, "name": {a.Namespace + "/" + a.Name, b.Namespace + "/" + b.Name}, "uid": {a.UID, b.UID},
		"labels": {a.Labels, b.Labels}, "spec": {a.Spec, b.Spec}, "phase": {a.Status.Phase, b.Status.Phase},
		"addresses": {a.Status.PodIPs, b.Status.PodIPs}, "start": {a.Status.StartTime, b.Status.StartTime},
		"containers": {a.Status.ContainerStatuses, b.Status.ContainerStatuses},
	} {
		if !equality.Semantic.DeepEqual(values[0], values[1]) {
			return differ(what, values[0], values[1])
		}
	}
	return ""
}
