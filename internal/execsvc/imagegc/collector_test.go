package imagegc

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	grpcstatus "google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

func failed(wanted, found int) string {
	return fmt.Sprintf("FreeDiskSpaceFailed: Failed to garbage collect required amount of images. "+
		"Attempted to free %d bytes, but only found %d bytes eligible to free.", wanted, found)
}

// Above the high threshold those go that haven't been used for the longest time, until the low one is reached.
func TestSpace(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.add("never", "used", "longago", "lately")
		w.use("used", "longago", "lately")
		w.run()
		pass(period)
		w.use("used", "lately")
		pass(period)
		w.use("used")
		w.full(160)
		pass(period)
		w.want("at 84 %")
		w.full(150)
		w.add("new")
		pass(period)
		w.want("at 85 %: fifty bytes have to go, and there are thirty, as what came lately stays",
			"remove never", "remove longago", "remove lately", failed(50, 30))
		w.add("more")
		w.full(199)
		pass(period)
		w.want("below the high threshold nothing goes, though the low one isn't reached")
		w.full(191 - 50)
		w.use()
		pass(period)
		w.want("all that nobody uses any more, the one last that was used last", "remove new", "remove more", "remove used", failed(59, 30))
		families, err := w.registry.Gather()
		if err != nil || len(families) != 1 || families[0].GetName() != "kubelet_image_garbage_collected_total" {
			t.Fatalf("metrics %v, %v", families, err)
		}
		if got := families[0].GetMetric()[0]; got.GetCounter().GetValue() != 6 || got.GetLabel()[0].GetValue() != "space" {
			t.Errorf("counted: %v", got)
		}
	})
}

// What stays whatever happens: what containers are of, whatever they call it, what the runtime pins, what pods need, and what came lately.
func TestUnusedOnly(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.add("byref", "byid", "bytag", "pinned", "needed", "idle", "raced")
		w.images[3].Pinned = true
		w.containers = []*runtimeapi.Container{
			{ImageRef: "sha256:byref"}, {ImageId: "sha256:byid"}, {Image: &runtimeapi.ImageSpec{Image: "docker.io/library/bytag:latest"}}, {},
		}
		w.needed = []string{"needed", "absent"}
		c := w.run()
		w.add("fresh")
		pass(period)
		pass(period - time.Minute)
		w.add("freshest")
		pass(time.Minute)
		// A pod that comes in the middle keeps its image.
		w.removing = func(string) { w.needed = append(w.needed, "raced") }
		w.removeUnused(c)
		w.want("all at once", "remove idle", "remove fresh")
		w.set(func() { w.needed, w.containers, w.removing = nil, nil, func(string) {} })
		pass(2 * time.Minute)
		w.removeUnused(c)
		w.want("when nobody needs them any more", "remove freshest", "remove byid", "remove byref", "remove bytag", "remove needed", "remove raced")
	})
}

// A pull may make the name that a pod has for its image one of an image that is here by another name.
func TestNeededByAnotherName(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.add("a", "b")
		w.needed = []string{"pulled"}
		c := w.run()
		w.removing = func(id string) {
			if id == "sha256:a" {
				w.images[1].RepoTags = append(w.images[1].RepoTags, "docker.io/library/pulled:latest")
			}
		}
		w.removeUnused(c)
		w.want("it is pulled meanwhile", "remove a")
	})
}

// While pods may come that aren't known yet no image goes, but not forever.
func TestUnsettled(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.add("a", "b")
		w.unsettled = true
		c := w.run()
		w.removeUnused(c)
		w.want("before all sources have spoken")
		w.set(func() { w.unsettled = false })
		w.removeUnused(c)
		w.want("once they have", "remove a", "remove b")
		w.add("c")
		w.set(func() { w.unsettled = true })
		pass(2 * period)
		w.removeUnused(c)
		w.want("when one of them doesn't", "remove c")
	})
}

func TestAge(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.cfg.High, w.cfg.MaxAge = 100, time.Hour
		w.add("never", "used")
		w.use("used")
		w.run()
		pass(30 * time.Minute)
		w.add("later")
		pass(30 * time.Minute)
		w.want("it begins with the start")
		pass(period)
		w.want("what was there and never used", "remove never")
		pass(25 * time.Minute)
		w.want("in the next minutes")
		w.use()
		pass(2 * period)
		w.want("what came later and was never used", "remove later")
		pass(period)
		pass(time.Hour)
		w.want("what isn't used any more", "remove used")
	})
}

// At 100 % nothing goes for the disk, and it isn't looked at; but what a full disk needs can go all the same.
func TestOff(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.cfg.High = 100
		w.add("a")
		w.full(0)
		w.fails["stat /images"] = errors.New("it was looked at")
		c := w.run()
		pass(time.Hour)
		w.want("in an hour")
		if w.told("WARN") != 0 {
			t.Errorf("log:\n%s", w.log.String())
		}
		w.removeUnused(c)
		w.want("when it is asked for", "remove a")
	})
	inWorld(t, func(t *testing.T, w *world) {
		w.cfg.High, w.cfg.MaxAge = 100, time.Hour
		w.add("a")
		w.full(0)
		w.run()
		pass(time.Hour)
		w.want("on a full disk, before the maximum age")
	})
}

// Trouble is told once in the log, and as an event from the second time on; one image that can't be removed keeps no other one.
func TestTrouble(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.add("a", "b", "c")
		w.full(100)
		w.fails["RemoveImage sha256:a"] = errors.New("it is stuck")
		w.run()
		pass(period)
		w.want("the first time", "remove b", "remove c")
		pass(period)
		w.want("then", "ImageGCFailed: remove image a: it is stuck")
		w.set(func() { w.free, w.fails["ListImages"] = 500, errors.New("down") })
		pass(period)
		w.want("another one", "ImageGCFailed: list images: down")
		w.set(func() { clear(w.fails) })
		pass(period)
		w.want("well again")
		if w.told("level=WARN") != 1 || w.told("can be removed again") != 1 {
			t.Errorf("log:\n%s", w.log.String())
		}
	})
}

// An image isn't removed while it can't be found out which ones pods need; a name that no image can have says nothing.
func TestNeedsAreKnown(t *testing.T) {
	for name, c := range map[string]struct {
		err  error
		want []string
	}{
		"no answer": {grpcstatus.Error(codes.Unavailable, "down"), nil},
		"no name":   {grpcstatus.Error(codes.InvalidArgument, "?"), []string{"remove a"}},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				w.add("a")
				w.needed, w.fails["ImageStatus x"] = []string{"x"}, c.err
				collector := w.run()
				if err := collector.RemoveUnused(t.Context()); (err == nil) != (c.want != nil) {
					t.Error(err)
				}
				w.want("removed", c.want...)
			})
		})
	}
}

func TestExcess(t *testing.T) {
	for _, c := range []struct {
		d         disk
		high, low int
		want      int64
	}{
		{disk{1000, 160}, 85, 80, 0},
		{disk{1000, 159}, 85, 80, 41}, // Parts of a percent that are free don't count, as in the kubelet.
		{disk{1000, 150}, 85, 80, 50},
		{disk{1000, 0}, 85, 80, 200},
		{disk{1000, 0}, 100, 80, 200},
		{disk{1000, 1}, 100, 80, 199},
		{disk{1000, 2000}, 85, 80, 0},
		{disk{1 << 50, 0}, 85, 0, 1 << 50},
		{disk{1 << 62, 1 << 61}, 85, 80, 0}, // Network file systems tell such sizes.
		{disk{1 << 62, 0}, 85, 50, 1 << 61},
	} {
		if got := c.d.excess(c.high, c.low); got != c.want {
			t.Errorf("%+v, %d to %d: %d; want %d", c.d, c.high, c.low, got, c.want)
		}
	}
}

func TestStatfs(t *testing.T) {
	d, err := statfs(t.TempDir())
	if err != nil || d.bytes <= 0 || d.free < 0 || d.free > d.bytes {
		t.Errorf("%+v, %v", d, err)
	}
	if _, err := statfs("/nowhere/at/all"); err == nil {
		t.Error("there is no error where nothing is")
	}
}
