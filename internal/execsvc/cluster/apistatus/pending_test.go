package apistatus_test

import (
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/podstream/podstream/internal/execsvc/cluster/apistatus/fakeapi"
)

// Pending reports whether a status is on its way. A server that doesn't answer, or refuses it, is not waited for.
func TestPending(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t)
		want := func(when string, want bool) {
			t.Helper()
			if got := n.writer.Pending(); got != want {
				t.Errorf("%s: pending is %v; want %v", when, got, want)
			}
		}
		want("without pods", false)
		n.createReady("1", "2")
		time.Sleep(time.Second)
		synctest.Wait()
		want("after all was sent", false)
		n.show("1", syncing, restarted(ready(), 1))
		want("while changes are gathered", true)
		time.Sleep(time.Second)
		synctest.Wait()
		want("after that", false)
		for name, fault := range map[string]fakeapi.Fault{
			"that refuses": {Code: http.StatusForbidden, Message: "no"}, "that is away": {Lost: true},
		} {
			n.fail(always(fault))
			n.show("1", syncing, restarted(ready(), 2))
			n.show("2", syncing, restarted(ready(), 2))
			time.Sleep(time.Second)
			synctest.Wait()
			want("with a server "+name, false)
			n.fail(nil)
			time.Sleep(time.Minute)
			n.createReady("1", "2")
			time.Sleep(time.Minute)
		}
	})
}
