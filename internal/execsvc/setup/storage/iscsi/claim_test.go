package iscsi

import (
	"strings"
	"testing"

	"github.com/podstream/podstream/internal/execsvc/setup/foreign/initiator"
)

// TestTwinNames: a target can claim any disk's identity, so the error of the volume that waits names the other volume.
func TestTwinNames(t *testing.T) {
	has := session{Boot: "boot", Session: initiator.Session{Target: target, Portal: portal1, Iface: "default"}, Users: []user{
		{Handle: portal1 + ":" + target + ":3#1234", LUN: 3, WWID: "naa.1\n" + strings.Repeat("x", 2000)},
	}}
	err := twin([]session{has}, "boot", "another", has.Users[0].WWID)
	if err == nil || !strings.Contains(err.Error(), "of the volume "+portal1+":"+target+":3, says") {
		t.Fatalf("error %v", err)
	}
	if strings.Contains(err.Error(), "\n") || len(err.Error()) > 500 {
		t.Errorf("it has the target's text: %q", err)
	}
}
