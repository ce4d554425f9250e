package iscsi_test

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/podstream/podstream/internal/execsvc/setup/foreign"
)

func TestMain(m *testing.M) {
	foreign.Main()
	goleak.VerifyTestMain(m)
}
