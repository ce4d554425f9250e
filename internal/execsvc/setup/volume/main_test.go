package volume

import (
	"os"
	"testing"

	"github.com/podstream/podstream/internal/execsvc/setup/foreign"
)

func TestMain(m *testing.M) {
	foreign.Main()
	os.Exit(m.Run())
}
