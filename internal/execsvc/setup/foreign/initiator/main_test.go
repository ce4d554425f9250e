package initiator

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/podstream/podstream/internal/roottest"
)

func TestMain(m *testing.M) {
	roottest.OwnMounts()
	goleak.VerifyTestMain(m)
}
