package sourceconfig

import (
	"reflect"
	"strings"
	"testing"
)

// FuzzDropIn: whatever is in a drop-in, there is an error that names a file or flag, or counts, or a plan that keeps
// its promises; and the same bytes always give the same.
func FuzzDropIn(f *testing.F) {
	main := kubeletHead + "staticPodPath: /m\nstaticPodURL: http://h/\n---\n" + sourcesHead + "files: [{name: a, path: /a}]\n"
	f.Fuzz(func(t *testing.T, data []byte) {
		in := inputs{main: main, dropIns: []string{string(data)}, also: map[string]string{"/k": kubeconfig("https://a", "token: t")}}
		plan, err := in.plan(t)
		again, errAgain := in.plan(t)
		if err != nil {
			for line := range strings.SplitSeq(err.Error(), "\n") {
				if !strings.HasPrefix(line, "/etc/p") && !strings.HasPrefix(line, "the configuration files") &&
					!strings.HasPrefix(line, "and ") && !strings.HasPrefix(line, "there are ") {
					t.Errorf("the error %q doesn't name a file", line)
				}
			}
			if errAgain == nil || errAgain.Error() != err.Error() {
				t.Errorf("the same bytes give %v, and then %v", err, errAgain)
			}
			return
		}
		if !reflect.DeepEqual(plan, again) {
			t.Errorf("the same bytes give %+v, and then %+v", plan, again)
		}
		names := map[string]bool{}
		for _, s := range plan.Sources {
			if names[s.Name] || s.Fingerprint == "" || s.Location == "" {
				t.Errorf("source %+v is named twice, or lacks its fingerprint or location", s)
			}
			names[s.Name] = true
		}
		if !names["file:a"] {
			t.Errorf("a drop-in took away a source that it can only replace: %v", plan.Sources)
		}
	})
}
