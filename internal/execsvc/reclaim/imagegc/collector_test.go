package imagegc

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	grpcstatus "google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// failed is the event of a disk of 1000 bytes.
func failed(used, freed int) string {
	return fmt.Sprintf("FreeDiskSpaceFailed: Insufficient free disk space on the node's image filesystem (%d%% of 1000 B used). "+
		"Failed to free sufficient space by deleting unused images (freed %d bytes). "+
		"Investigate disk usage, as it could be used by active images, logs, volumes, or other data.", used, freed)
}

// Above the high threshold, images are removed in the order of their last use, down to the low threshold.
func TestSpace(t *testing.T) {
	inBubble(t, func(t *testing.T, h *harness) {
		h.add("never", "used", "longago", "lately")
		h.use("used", "longago", "lately")
		h.run()
		pass(period)
		h.use("used", "lately")
		pass(period)
		h.use("used")
		h.full(160)
		pass(period)
		h.want("at 84 %")
		h.full(150)
		h.add("new")
		pass(period)
		h.want("at 85 %: fifty bytes have to go, and there are thirty, as what came lately stays",
			"remove never", "remove longago", "remove lately", failed(85, 30))
		h.add("more")
		h.full(199)
		pass(period)
		h.want("below the high threshold nothing goes, though the low one isn't reached")
		h.full(191 - 50)
		h.use()
		pass(period)
		h.want("all unused images, in the order of their last use", "remove new", "remove more", "remove used", failed(86, 30))
		families, err := h.registry.Gather()
		if err != nil || len(families) != 1 || families[0].GetName() != "kubelet_image_garbage_collected_total" {
			t.Fatalf("metrics %v, %v", families, err)
		}
		if got := families[0].GetMetric()[0]; got.GetCounter().GetValue() != 6 || got.GetLabel()[0].GetValue() != "space" {
			t.Errorf("counted: %v", got)
		}
	})
}

// These images are never removed: images of containers, under any name; pinned images; images that pods
// require; and recent images.
func TestUnusedOnly(t *testing.T) {
	inBubble(t, func(t *testing.T, h *harness) {
		h.add("byref", "byid", "bytag", "pinned", "needed", "idle", "raced")
		h.images[3].Pinned = true
		h.containers = []*runtimeapi.Container{
			{ImageRef: "sha256:byref"}, {ImageId: "sha256:byid"}, {Image: &runtimeapi.ImageSpec{Image: "docker.io/library/bytag:latest"}}, {},
		}
		h.needed = []string{"needed", "absent"}
		c := h.run()
		h.add("fresh")
		pass(period)
		pass(period - time.Minute)
		h.add("freshest")
		pass(time.Minute)
		// A pod that arrives during a round keeps its image.
		h.removing = func(string) { h.needed = append(h.needed, "raced") }
		h.removeUnused(c)
		h.want("all at once", "remove idle", "remove fresh")
		h.set(func() { h.needed, h.containers, h.removing = nil, nil, func(string) {} })
		pass(2 * time.Minute)
		h.removeUnused(c)
		h.want("when no pod requires them any more", "remove freshest", "remove byid", "remove byref", "remove bytag", "remove needed", "remove raced")
	})
}

// A pull may give a pod's image name to an image that the node has already under another name.
func TestRequiredByAnotherName(t *testing.T) {
	inBubble(t, func(t *testing.T, h *harness) {
		h.add("a", "b")
		h.needed = []string{"pulled"}
		c := h.run()
		h.removing = func(id string) {
			if id == "sha256:a" {
				h.images[1].RepoTags = append(h.images[1].RepoTags, "docker.io/library/pulled:latest")
			}
		}
		h.removeUnused(c)
		h.want("it is pulled meanwhile", "remove a")
	})
}

// No image is removed until all pods are known, but not forever.
func TestSourcesNotReady(t *testing.T) {
	inBubble(t, func(t *testing.T, h *harness) {
		h.add("a", "b")
		h.unsettled = true
		c := h.run()
		h.removeUnused(c)
		h.want("before all sources are ready")
		h.set(func() { h.unsettled = false })
		h.removeUnused(c)
		h.want("once they have", "remove a", "remove b")
		h.add("c")
		h.set(func() { h.unsettled = true })
		pass(2 * period)
		h.removeUnused(c)
		h.want("when one of them doesn't", "remove c")
	})
}

func TestAge(t *testing.T) {
	inBubble(t, func(t *testing.T, h *harness) {
		h.cfg.HighThresholdPercent, h.cfg.MaxAge = 100, time.Hour
		h.add("never", "used")
		h.use("used")
		h.run()
		pass(30 * time.Minute)
		h.add("later")
		pass(30 * time.Minute)
		h.want("it begins with the start")
		pass(period)
		h.want("what was there and never used", "remove never")
		pass(25 * time.Minute)
		h.want("in the next minutes")
		h.use()
		pass(2 * period)
		h.want("what came later and was never used", "remove later")
		pass(period)
		pass(time.Hour)
		h.want("what isn't used any more", "remove used")
	})
}

// A high threshold of 100 disables collection for space, and the disk isn't read; RemoveUnused still works.
func TestOff(t *testing.T) {
	inBubble(t, func(t *testing.T, h *harness) {
		h.cfg.HighThresholdPercent = 100
		h.add("a")
		h.full(0)
		h.fails["stat /images"] = errors.New("it was looked at")
		c := h.run()
		pass(time.Hour)
		h.want("in an hour")
		if h.logged("WARN") != 0 {
			t.Errorf("log:\n%s", h.log.String())
		}
		h.removeUnused(c)
		h.want("when it is asked for", "remove a")
	})
	inBubble(t, func(t *testing.T, h *harness) {
		h.cfg.HighThresholdPercent, h.cfg.MaxAge = 100, time.Hour
		h.add("a")
		h.full(0)
		h.run()
		pass(time.Hour)
		h.want("on a full disk, before the maximum age")
	})
}

// A failure is logged once, and an event from the second failure on; an image that can't be removed doesn't keep the
// others from being removed.
func TestFailures(t *testing.T) {
	inBubble(t, func(t *testing.T, h *harness) {
		h.add("a", "b", "c")
		h.full(100)
		h.fails["RemoveImage sha256:a"] = errors.New("it is stuck")
		h.run()
		pass(period)
		h.want("the first time", "remove b", "remove c")
		pass(period)
		h.want("then", "ImageGCFailed: remove image a: it is stuck")
		h.set(func() { h.free, h.fails["ListImages"] = 500, errors.New("down") })
		pass(period)
		h.want("another one", "ImageGCFailed: down")
		h.set(func() { clear(h.fails) })
		pass(period)
		h.want("well again")
		if h.logged("level=WARN") != 1 || h.logged("can be removed again") != 1 {
			t.Errorf("log:\n%s", h.log.String())
		}
	})
}

// No image is removed while the pods' images can't be resolved; an invalid image name is ignored.
func TestRequiredImagesAreKnown(t *testing.T) {
	for name, c := range map[string]struct {
		err  error
		want []string
	}{
		"no answer": {grpcstatus.Error(codes.Unavailable, "down"), nil},
		"no name":   {grpcstatus.Error(codes.InvalidArgument, "?"), []string{"remove a"}},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, h *harness) {
				h.add("a")
				h.needed, h.fails["ImageStatus x"] = []string{"x"}, c.err
				collector := h.run()
				if err := collector.RemoveUnused(t.Context()); (err == nil) != (c.want != nil) {
					t.Error(err)
				}
				h.want("removed", c.want...)
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
		{disk{1 << 62, 1 << 61}, 85, 80, 0}, // Network file systems report such sizes.
		{disk{1 << 62, 0}, 85, 50, 1 << 61},
	} {
		if got := c.d.excess(c.high, c.low); got != c.want {
			t.Errorf("%+v, %d to %d: %d; want %d", c.d, c.high, c.low, got, c.want)
		}
	}
}

func TestSize(t *testing.T) {
	for bytes, want := range map[int64]string{
		0: "0 B", 1023: "1023 B", 1024: "1.0 KiB", 1536: "1.5 KiB", 1 << 20: "1.0 MiB", 5 << 30: "5.0 GiB", 1 << 40: "1.0 TiB", 3 << 50: "3072.0 TiB",
	} {
		if got := size(bytes); got != want {
			t.Errorf("%d: %s; want %s", bytes, got, want)
		}
	}
}

// TestInvalidCapacity: a disk without a size has the kubelet's event, and no image is removed for it.
func TestInvalidCapacity(t *testing.T) {
	inBubble(t, func(t *testing.T, h *harness) {
		h.add("a")
		h.bytes = 0
		h.run()
		pass(period)
		h.want("a disk without a size", "InvalidDiskCapacity: invalid capacity 0 on image filesystem")
	})
}

func TestStatfs(t *testing.T) {
	d, err := statfs(t.TempDir())
	if err != nil || d.bytes <= 0 || d.free < 0 || d.free > d.bytes {
		t.Errorf("%+v, %v", d, err)
	}
	if _, err := statfs("/nowhere/at/all"); err == nil {
		t.Error("no error for a missing path")
	}
}

// TestListing: each round of Run passes all images on, with a call before they are listed; a round that can't list them
// passes nothing on. RemoveUnused, which may follow a round at once, doesn't call it.
func TestListing(t *testing.T) {
	inBubble(t, func(t *testing.T, h *harness) {
		var calls []string
		h.cfg.Listing = func() func([]*runtimeapi.Image) {
			h.set(func() { calls = append(calls, "before") })
			return func(images []*runtimeapi.Image) {
				h.set(func() { calls = append(calls, fmt.Sprint(len(images))) })
			}
		}
		h.add("a", "b")
		c := h.run()
		h.removeUnused(c)
		h.want("by RemoveUnused", "remove a", "remove b")
		h.set(func() { h.fails["ListImages"] = errors.New("down") })
		pass(period)
		h.set(func() { clear(h.fails) })
		pass(period)
		h.set(func() {
			if got := strings.Join(calls, " "); got != "before 2 before before 0" {
				t.Errorf("calls: %s", got)
			}
		})
	})
}
