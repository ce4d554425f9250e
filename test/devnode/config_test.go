package devnode

import (
	"errors"
	"os"
	"strings"
	"testing"
)

// TestCheckSaysWhatToDo calls Check with an empty PATH. Its error names the command that installs the missing
// programs.
func TestCheckSaysWhatToDo(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("without root, Check returns another error; run: sudo make test")
	}
	t.Setenv("PATH", t.TempDir())
	t.Chdir(t.TempDir())
	for runtime, command := range map[Runtime]string{
		Installed:    "; hack/deps.sh installs",
		Containerd17: "; hack/deps.sh containerd-1.7",
		Containerd2:  "; hack/deps.sh containerd-2",
	} {
		if err := Check(Config{Runtime: runtime}); !errors.Is(err, ErrUnavailable) || !strings.Contains(err.Error(), command) {
			t.Errorf("runtime %d: %v", runtime, err)
		}
	}
	for _, runtime := range []Runtime{Sim, Endpoint} {
		if err := Check(Config{Runtime: runtime}); err != nil {
			t.Errorf("runtime %d: %v", runtime, err)
		}
	}
}
