package runtime

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	v1 "k8s.io/api/core/v1"

	"github.com/podstream/podstream/internal/execsvc/criconfig"
	"github.com/podstream/podstream/internal/execsvc/observed"
)

// messages is a sim in which containers can leave messages.
func newMessageSim(t *testing.T) *sim {
	s := newSim(t)
	s.with(func(c *Config) { c.PodsDir = filepath.Join(s.root, "volumes") })
	return s
}

func TestTerminationMessage(t *testing.T) {
	s := newMessageSim(t)
	a := sample("a", "write", "/dev/termination-log", "out of coffee")
	pod := simPod(a)
	s.mustSync(pod)
	if got := s.wantContainer(pod, "a", observed.Exited, 0).Message; got != "out of coffee" {
		t.Errorf("message %q", got)
	}
	// Another life of podexecd reads the same.
	s.Runtime = s.restarted()
	if got := s.wantContainer(pod, "a", observed.Exited, 0).Message; got != "out of coffee" {
		t.Errorf("message after a restart %q", got)
	}
	file := filepath.Join(s.root, "volumes", "uid-1", "containers", "a", "00000000")
	info, err := os.Stat(file)
	if err != nil || info.Mode().Perm() != 0o666 {
		t.Errorf("file %v, error %v; want it writable for all", info, err)
	}
	// It goes with the container.
	if err := s.Purge(t.Context(), pod, s.status(pod)); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(file); !os.IsNotExist(err) {
		t.Errorf("the file is still there: %v", err)
	}
}

func TestTerminationMessageLimits(t *testing.T) {
	for name, tc := range map[string]struct {
		containers, wrote, want int
	}{
		"one":        {1, 5000, 4096},
		"one, short": {1, 100, 100},
		"three":      {3, 5000, 4096},
		"six":        {6, 5000, 2048},
	} {
		t.Run(name, func(t *testing.T) {
			s := newMessageSim(t)
			var containers []v1.Container
			for i := range tc.containers {
				containers = append(containers, sample(string(rune('a'+i)), "write", "/dev/termination-log", strings.Repeat("x", tc.wrote)))
			}
			pod := simPod(containers...)
			s.mustSync(pod)
			if got := len(s.wantContainer(pod, "a", observed.Exited, 0).Message); got != tc.want {
				t.Errorf("the message has %d bytes; want %d", got, tc.want)
			}
		})
	}
}

// What a container writes may be anything; what is shown is text.
func TestTerminationMessageIsText(t *testing.T) {
	s := newMessageSim(t)
	pod := simPod(sample("a", "write", "/dev/termination-log", strings.Repeat("é", 3000)), sample("b"), sample("c"), sample("d"), sample("e"))
	s.mustSync(pod)
	if got := s.wantContainer(pod, "a", observed.Exited, 0).Message; !utf8.ValidString(got) || len(got) < 2400 || len(got) > 2457 {
		t.Errorf("message of %d bytes, valid %t", len(got), utf8.ValidString(got))
	}
}

func TestTerminationMessageFromTheLog(t *testing.T) {
	lines := strings.Repeat("line\n", 100) + "the end"
	for name, tc := range map[string]struct {
		policy v1.TerminationMessagePolicy
		code   int32
		want   string
	}{
		"it failed":         {v1.TerminationMessageFallbackToLogsOnError, 1, strings.Repeat("line\n", 79) + "the end\n"},
		"it ended well":     {v1.TerminationMessageFallbackToLogsOnError, 0, ""},
		"another policy":    {v1.TerminationMessageReadFile, 1, ""},
		"wasn't set at all": {"", 1, ""},
	} {
		t.Run(name, func(t *testing.T) {
			s := newMessageSim(t)
			a := sample("a", "print", lines)
			a.TerminationMessagePolicy = tc.policy
			pod := simPod(a)
			s.mustSync(pod)
			s.exit(pod, "a", tc.code)
			if got := s.wantContainer(pod, "a", observed.Exited, 0).Message; got != tc.want {
				t.Errorf("message %q; want %q", got, tc.want)
			}
		})
	}
}

func TestTerminationMessageFromALongLog(t *testing.T) {
	s := newMessageSim(t)
	a := sample("a", "print", strings.Repeat("y", 5000))
	a.TerminationMessagePolicy = v1.TerminationMessageFallbackToLogsOnError
	pod := simPod(a)
	s.mustSync(pod)
	s.exit(pod, "a", 1)
	if got := s.wantContainer(pod, "a", observed.Exited, 0).Message; got != strings.Repeat("y", 2047)+"\n" {
		t.Errorf("the message has %d bytes; want the last 2048", len(got))
	}
}

// A failed start has the runtime's message, and no log is looked for.
func TestMessageOfAFailedStart(t *testing.T) {
	s := newMessageSim(t)
	a := sample("a")
	a.Command, a.TerminationMessagePolicy = []string{"/nope"}, v1.TerminationMessageFallbackToLogsOnError
	pod := simPod(a)
	s.sync(pod)
	if got := s.wantContainer(pod, "a", observed.Exited, 0).Message; !strings.HasSuffix(got, "executable file not found in $PATH: unknown") {
		t.Errorf("message %q", got)
	}
}

// What the pod mounts there is its own: it is neither shadowed nor read.
func TestTerminationMessagePathInAVolume(t *testing.T) {
	s := newMessageSim(t)
	secret := filepath.Join(s.root, "secret")
	if err := os.WriteFile(secret, []byte("secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	pod := simPod(sample("a"))
	in := s.input(pod)
	in.World = plainWorld{mounts: []criconfig.Mount{{HostPath: secret, ContainerPath: "/dev/termination-log"}}}
	if res := s.SyncPod(t.Context(), in); res.Err != nil {
		t.Fatal(res.Err)
	}
	a := s.wantContainer(pod, "a", observed.Running, 0)
	resp, err := s.cri.ContainerStatus(t.Context(), a.ID, false)
	if err != nil || len(resp.GetStatus().GetMounts()) != 1 || resp.GetStatus().GetMounts()[0].GetHostPath() != secret {
		t.Errorf("mounts %v, error %v; want the pod's own", resp.GetStatus().GetMounts(), err)
	}
	s.exit(pod, "a", 1)
	if got := s.wantContainer(pod, "a", observed.Exited, 0).Message; got != "" {
		t.Errorf("message %q; want none", got)
	}
}
