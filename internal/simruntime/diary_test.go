package simruntime

import (
	"regexp"
	"testing"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// TestDiary runs commands that end at once, later, by SIGTERM, some time after SIGTERM, and not even by SIGTERM.
func TestDiary(t *testing.T) {
	for _, test := range []struct {
		command []string
		term    bool
		want    string
	}{
		{[]string{"exit", "3"}, false, "start|end 3"},
		{[]string{"seq", "sleep", "1s", ";", "exit", "4", "1s"}, false, "start|end 4"},
		{[]string{"sleep"}, true, "start|term|end 143"},
		{[]string{"exit", "3", "1h"}, true, "start|term|end 143"},
		{[]string{"on-term", "/record", "x", "1s", "5"}, true, "start|term|end 5"},
		{[]string{"ignore-term"}, true, "start|term"},
	} {
		f := newFiles([]*runtimeapi.Mount{{ContainerPath: "/mounted", HostPath: t.TempDir()}})
		p := playCommand(environment{files: f}, append([]string{"diary", "/mounted/diary"}, test.command...))
		if test.term {
			p = p.onTerm()
		}
		for p.next != nil {
			if p.lifetime != time.Second {
				t.Errorf("%v: the lifetime is %v", test.command, p.lifetime)
			}
			p = p.next()
		}
		text, err := f.read("/mounted/diary")
		if err != nil {
			t.Fatal(err)
		}
		have := regexp.MustCompile(`(?m)^\d{19} \w{8} `).ReplaceAllString(string(text), "|")
		have = regexp.MustCompile(`\n`).ReplaceAllString(have, "")
		if have != "|"+test.want {
			t.Errorf("%v: %s, want %s", test.command, have, test.want)
		}
	}
}
