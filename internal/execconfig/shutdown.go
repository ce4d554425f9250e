package execconfig

import (
	"fmt"
	"math"
	"time"

	kubeletconfigv1beta1 "k8s.io/kubelet/config/v1beta1"
)

// Shutdown configures the graceful shutdown of the node. As in the kubelet, there are no flags for it.
type Shutdown struct {
	// ShutdownGracePeriod is how long a shutdown of the machine is delayed at most, so that pods can end; zero: not at
	// all. ShutdownGracePeriodCriticalPods is the part of it that is for critical pods.
	ShutdownGracePeriod, ShutdownGracePeriodCriticalPods time.Duration
	// ShutdownGracePeriodByPodPriority are such periods by the priorities of pods, in place of the other two.
	ShutdownGracePeriodByPodPriority []kubeletconfigv1beta1.ShutdownGracePeriodByPodPriority
}

// supportedOfShutdown are the fields of a KubeletConfiguration that set a Shutdown.
var supportedOfShutdown = []string{"shutdownGracePeriod", "shutdownGracePeriodCriticalPods", "shutdownGracePeriodByPodPriority"}

func (s *Shutdown) fromFile(c *kubeletconfigv1beta1.KubeletConfiguration) {
	s.ShutdownGracePeriod, s.ShutdownGracePeriodCriticalPods = c.ShutdownGracePeriod.Duration, c.ShutdownGracePeriodCriticalPods.Duration
	s.ShutdownGracePeriodByPodPriority = c.ShutdownGracePeriodByPodPriority
}

func (s *Shutdown) into(c *kubeletconfigv1beta1.KubeletConfiguration) {
	c.ShutdownGracePeriod, c.ShutdownGracePeriodCriticalPods = duration(s.ShutdownGracePeriod), duration(s.ShutdownGracePeriodCriticalPods)
	c.ShutdownGracePeriodByPodPriority = s.ShutdownGracePeriodByPodPriority
}

// check calls wrong for each invalid setting. The rules are the kubelet's; negative seconds, which it accepts, are
// invalid here.
func (s *Shutdown) check(wrong func(flag, field, reason string)) {
	total, critical := s.ShutdownGracePeriod, s.ShutdownGracePeriodCriticalPods
	for _, p := range []struct {
		field  string
		period time.Duration
	}{{"shutdownGracePeriod", total}, {"shutdownGracePeriodCriticalPods", critical}} {
		if p.period < 0 || p.period > 0 && p.period < time.Second {
			wrong("", p.field, fmt.Sprintf("it is %v; want zero, or at least 1s", p.period))
		}
	}
	if critical > total {
		wrong("", "shutdownGracePeriodCriticalPods", fmt.Sprintf("it is %v, more than shutdownGracePeriod, which is %v", critical, total))
	}
	if len(s.ShutdownGracePeriodByPodPriority) > 0 && (total > 0 || critical > 0) {
		wrong("", "shutdownGracePeriodByPodPriority", "it can't be used together with shutdownGracePeriod")
	}
	for _, p := range s.ShutdownGracePeriodByPodPriority {
		if p.ShutdownGracePeriodSeconds < 0 || p.ShutdownGracePeriodSeconds > math.MaxInt32 {
			wrong("", "shutdownGracePeriodByPodPriority", fmt.Sprintf("shutdownGracePeriodSeconds of priority %d is %d; want 0 to %d",
				p.Priority, p.ShutdownGracePeriodSeconds, math.MaxInt32))
		}
	}
}
