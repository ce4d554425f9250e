package service_test

import (
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/utils/clock"

	"github.com/podstream/podstream/internal/podctl/web/service"
)

// TestConfirmationTime: a confirmation is valid for a minute.
func TestConfirmationTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := service.NewConfirmations(clock.RealClock{})
		action := restartOf("a", "")
		one, err := c.New(action)
		if err != nil {
			t.Fatal(err)
		}
		two, err := c.New(action)
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute - time.Nanosecond)
		if err := c.Use(one, action); err != nil {
			t.Errorf("within a minute: %v", err)
		}
		time.Sleep(time.Nanosecond)
		if err := c.Use(two, action); err == nil {
			t.Error("it is valid after a minute")
		}
		first, _ := c.New(action)
		for range 32 {
			_, _ = c.New(action)
		}
		if err := c.Use(first, action); err == nil {
			t.Error("33 confirmations are kept")
		}
	})
}
