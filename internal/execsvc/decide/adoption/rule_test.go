package adoption

import (
	"maps"
	"testing"

	"github.com/podstream/podstream/internal/execsvc/pod/podmeta"
)

// TestDirectories: both directories of the labels' own pod count, and no label becomes a part of another path.
func TestDirectories(t *testing.T) {
	labels := map[string]string{podmeta.PodUIDLabel: "u", podmeta.PodNamespaceLabel: "ns", podmeta.PodNameLabel: "web"}
	const pods, logs = "/pods/u", "/logs/ns_web_u"
	for name, test := range map[string]struct {
		key, value  string
		directories map[string]bool
		want        bool
	}{
		"both":                    {"", "", map[string]bool{pods: true, logs: true}, true},
		"no logs":                 {"", "", map[string]bool{pods: true}, false},
		"logs alone":              {"", "", map[string]bool{logs: true}, false},
		"another namespace":       {podmeta.PodNamespaceLabel, "other", map[string]bool{pods: true, logs: true}, false},
		"a UID that is a path":    {podmeta.PodUIDLabel, "../pods/u", map[string]bool{pods: true, "/pods/u_web": true, "/logs/pods/u": true, logs: true}, false},
		"a UID that is a parent":  {podmeta.PodUIDLabel, "..", map[string]bool{"/": true, "/logs/ns_web_..": true}, false},
		"no UID":                  {podmeta.PodUIDLabel, "", map[string]bool{"/pods": true, "/logs/ns_web_": true}, false},
		"a namespace with a path": {podmeta.PodNamespaceLabel, "../logs/ns", map[string]bool{pods: true, logs: true}, false},
		"a name with a path":      {podmeta.PodNameLabel, "x/../ns_web", map[string]bool{pods: true, "/logs/ns_web_u": true}, false},
	} {
		changed := maps.Clone(labels)
		if test.key != "" {
			changed[test.key] = test.value
		}
		d := Directories{Pods: []string{"/pods"}, Logs: "/logs", IsDirectory: func(path string) bool { return test.directories[path] }}
		if got := d.Has(changed); got != test.want {
			t.Errorf("%s: %v, want %v", name, got, test.want)
		}
		for _, none := range []Directories{{Pods: d.Pods, IsDirectory: d.IsDirectory}, {Logs: d.Logs, IsDirectory: d.IsDirectory}} {
			if none.Has(changed) {
				t.Errorf("%s: without one of the directories' paths, it is the kubelet's", name)
			}
		}
	}
}
