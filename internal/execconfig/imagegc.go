package execconfig

import (
	"fmt"
	"time"

	"github.com/spf13/pflag"
	kubeletconfigv1beta1 "k8s.io/kubelet/config/v1beta1"
	"k8s.io/utils/ptr"
)

// ImageGC configures the removal of unused images.
type ImageGC struct {
	// HighThreshold is the usage of the images' disk, in percent, above which images are removed: 85; 100 disables
	// it. LowThreshold is the usage at which removal stops: 80.
	HighThreshold, LowThreshold int
	// MinAge is how long an image stays at least: 2 min. MaxAge is how long an unused image stays at most; zero: no
	// limit.
	MinAge, MaxAge time.Duration
}

// supportedOfImageGC are the fields of a KubeletConfiguration that set an ImageGC.
var supportedOfImageGC = []string{"imageGCHighThresholdPercent", "imageGCLowThresholdPercent", "imageMinimumGCAge", "imageMaximumGCAge"}

func (g *ImageGC) addFlags(fs *pflag.FlagSet) {
	fs.IntVar(&g.HighThreshold, "image-gc-high-threshold", 85, "`percent` of the images' disk above which unused images are removed; 100: never")
	fs.IntVar(&g.LowThreshold, "image-gc-low-threshold", 80, "`percent` of the images' disk at which the removal stops")
	fs.DurationVar(&g.MinAge, "minimum-image-ttl-duration", 2*time.Minute, "least `time` for which an image is kept")
}

// fromFile sets what the file sets and no flag does.
func (g *ImageGC) fromFile(set *pflag.FlagSet, c *kubeletconfigv1beta1.KubeletConfiguration) {
	if c.ImageGCHighThresholdPercent != nil {
		takePointer(set, "image-gc-high-threshold", &g.HighThreshold, ptr.To(int(*c.ImageGCHighThresholdPercent)))
	}
	if c.ImageGCLowThresholdPercent != nil {
		takePointer(set, "image-gc-low-threshold", &g.LowThreshold, ptr.To(int(*c.ImageGCLowThresholdPercent)))
	}
	take(set, "minimum-image-ttl-duration", &g.MinAge, c.ImageMinimumGCAge.Duration)
	g.MaxAge = c.ImageMaximumGCAge.Duration
}

func (g *ImageGC) into(c *kubeletconfigv1beta1.KubeletConfiguration) {
	c.ImageGCHighThresholdPercent, c.ImageGCLowThresholdPercent = number(g.HighThreshold), number(g.LowThreshold)
	c.ImageMinimumGCAge, c.ImageMaximumGCAge = duration(g.MinAge), duration(g.MaxAge)
}

// check calls wrong for each invalid setting.
func (g *ImageGC) check(wrong func(flag, field, reason string)) {
	for _, p := range []struct {
		flag, field string
		value       int
	}{
		{"image-gc-high-threshold", "imageGCHighThresholdPercent", g.HighThreshold},
		{"image-gc-low-threshold", "imageGCLowThresholdPercent", g.LowThreshold},
	} {
		if p.value < 0 || p.value > 100 {
			wrong(p.flag, p.field, fmt.Sprintf("it is %d; want 0 to 100", p.value))
		}
	}
	if g.LowThreshold >= g.HighThreshold {
		wrong("image-gc-low-threshold", "imageGCLowThresholdPercent", fmt.Sprintf("it is %d, and must be less than the high threshold of %d", g.LowThreshold, g.HighThreshold))
	}
	if g.MinAge < 0 {
		wrong("minimum-image-ttl-duration", "imageMinimumGCAge", "it must not be less than zero")
	}
	if g.MaxAge < 0 || g.MaxAge > 0 && g.MaxAge <= g.MinAge {
		wrong("", "imageMaximumGCAge", fmt.Sprintf("it is %v; want more than imageMinimumGCAge, which is %v, or zero", g.MaxAge, g.MinAge))
	}
}
