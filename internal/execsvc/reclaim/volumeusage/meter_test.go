package volumeusage

import (
	"fmt"
	"testing"
	"time"

	"github.com/podstream/podstream/internal/execsvc/setup/storage"
	"github.com/podstream/podstream/internal/metrictest"
)

// TestMeasures: a mounted volume is measured at once, and then once a minute; its value is dropped when it isn't mounted any more.
func TestMeasures(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		twice := at("a.csi", "h2", "u2")
		twice.Volumes = []string{"h2", "same"}
		w.mount(at("a.csi", "h1", "u1"), twice)
		w.want(t, "u1/h1=1", "u2/h2=1", "u2/same=1")
		pass(period / 2)
		w.want(t, "u1/h1=1", "u2/h2=1", "u2/same=1")
		pass(period / 2)
		w.want(t, "u1/h1=2", "u2/h2=2", "u2/same=2")
		pass(10 * period)
		if n := w.called("h1"); n < 11 || n > 14 {
			t.Errorf("%d calls in 11 minutes", n)
		}
		// The end of a volume needs no look.
		w.change(func() { w.mounted = w.mounted[:1] })
		w.want(t, fmt.Sprintf("u1/h1=%d", w.called("h1")))
		w.mount()
		w.want(t)
		// Another pod's volume has no value of before.
		w.change(func() { w.hangs["h1"] = true })
		w.mount(at("a.csi", "h1", "u3"))
		w.want(t)
		metrictest.Want(t, w.registry, map[string]float64{
			"kubelet_volume_metric_collection_duration_seconds{metric_source=a.csi}": float64(w.called("h1") - 1 + w.called("h2")),
		})
	})
}

// TestFailure: a volume whose driver fails has no value until it answers again; a driver without statistics is no failure.
func TestFailure(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.change(func() { w.fails["none"] = fmt.Errorf("%w: b.csi", storage.ErrNoStats) })
		w.mount(at("a.csi", "h1", "u1"), at("b.csi", "none", "u1"))
		w.want(t, "u1/h1=1")
		w.change(func() { w.fails["h1"] = errBroken })
		pass(5 * period)
		w.want(t)
		if n := w.logged("level=WARN"); n != 1 || w.logged(errBroken.Error()) != 1 {
			t.Errorf("%d warnings for five failures of one volume", n)
		}
		w.change(func() { delete(w.fails, "h1") })
		pass(period)
		w.want(t, fmt.Sprintf("u1/h1=%d", w.called("h1")))
		if w.logged("level=INFO") != 1 {
			t.Error("the end of the failures isn't logged")
		}
	})
}

// TestHungDriver: a driver that doesn't answer delays no other driver, and gets few calls.
func TestHungDriver(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		var all []storage.Mounted
		for i := range 3 * maxCalls {
			handle := fmt.Sprintf("hung%d", i)
			w.change(func() { w.hangs[handle] = true })
			all = append(all, at("a.csi", handle, "u1"))
		}
		w.mount(append(all, at("b.csi", "h1", "u1"))...)
		for n := 1; n <= 10; n++ {
			w.want(t, fmt.Sprintf("u1/h1=%d", w.called("h1")))
			if got := w.called("h1"); got < n {
				t.Errorf("%d values of the driver that answers, after %d periods", got, n-1)
			}
			pass(period)
		}
	})
}

// TestHungVolumes: once volumes of a driver are known to hang, the others of that driver are measured in time.
func TestHungVolumes(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		var all []storage.Mounted
		for i := range 2 * maxCalls {
			handle := fmt.Sprintf("hung%d", i)
			w.change(func() { w.hangs[handle] = true })
			all = append(all, at("a.csi", handle, "u1"))
		}
		w.mount(all...)
		pass(2*callLimit + look) // All are known to hang.
		well := []string{}
		for i := range maxCalls {
			all = append(all, at("a.csi", fmt.Sprintf("well%d", i), "u1"))
			well = append(well, fmt.Sprintf("u1/well%d=1", i))
		}
		w.mount(all...)
		w.want(t, well...)
		before := w.called("hung0")
		pass(30 * period)
		for i := range maxCalls {
			if n := w.called(fmt.Sprintf("well%d", i)); n < 27 {
				t.Errorf("volume well%d has %d values after 30 periods", i, n)
			}
		}
		if n := w.called("hung0") - before; n < 1 || n > 5 {
			t.Errorf("a volume that hangs was tried %d times in 30 periods", n)
		}
		// A volume that answers again is measured in time again.
		w.change(func() { clear(w.hangs) })
		pass(12 * period)
		at := w.called("hung0")
		pass(5 * period)
		if n := w.called("hung0") - at; n < 4 {
			t.Errorf("a volume that hung before has %d values in 5 periods", n)
		}
	})
}

// TestSlowDriver: a driver that is slow, and answers, has values.
func TestSlowDriver(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.change(func() { w.lasts["h1"] = 30 * time.Second })
		w.mount(at("a.csi", "h1", "u1"))
		w.want(t)
		pass(period)
		for range 20 {
			w.want(t, fmt.Sprintf("u1/h1=%d", w.Usage()["u1"]["h1"].Used))
			if w.Usage()["u1"]["h1"].Used == 0 {
				t.Fatal("no value")
			}
			pass(period)
		}
	})
}

// TestOldValue: a value isn't shown for ever while its driver hangs.
func TestOldValue(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.mount(at("a.csi", "h1", "u1"))
		w.want(t, "u1/h1=1")
		// The call never ends, against all rules.
		w.change(func() { w.lasts["h1"] = time.Hour })
		pass(2 * period)
		w.want(t, "u1/h1=1")
		pass(maxAge)
		w.want(t)
	})
}

// TestSharedVolume: two pods with one volume have a value each, from one call at a time.
func TestSharedVolume(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.change(func() { w.lasts["h1"] = time.Second })
		w.mount(at("a.csi", "h1", "u1"), at("a.csi", "h1", "u2"))
		w.want(t, "u1/h1=1", "u2/h1=2")
	})
}

// TestNameless: a volume of which the pod's names aren't known isn't measured.
func TestNameless(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		nameless := at("a.csi", "h1", "u1")
		nameless.Volumes = nil
		w.mount(nameless)
		w.want(t)
		if w.called("h1")+w.called("") != 0 {
			t.Error("the driver was asked")
		}
	})
}
