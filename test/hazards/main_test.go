package hazards

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/podstream/podstream/test/rig"
)

// binDir has the binaries, built once.
var binDir string

func TestMain(m *testing.M) {
	os.Exit(rig.Main(m, build, func() error { return os.RemoveAll(binDir) }))
}

func build() (err error) {
	if binDir, err = os.MkdirTemp("", "hazards"); err != nil {
		return err
	}
	cmd := exec.Command("go", "build", "-o", binDir+"/", "./cmd/podconfigd", "./cmd/podexecd", "./internal/simruntime/simruntimed")
	cmd.Dir = filepath.Join("..", "..")
	if out, err := cmd.CombinedOutput(); err != nil {
		return errors.Join(fmt.Errorf("build the binaries: %w\n%s", err, out), os.RemoveAll(binDir))
	}
	return nil
}
