package node

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/podstream/podstream/internal/kubeletmetrics"
)

// startup measures how long a new Node takes to be ready. As with the kubelet, a Node that exists already isn't measured.
// Only the goroutine that registers and posts uses it.
type startup struct {
	// uptime is how long the machine had run at began; zero: that isn't known.
	uptime                       time.Duration
	began, attempted, registered time.Time
	done                         bool

	preKubelet, preRegistration, registration, postRegistration, total prometheus.Gauge
}

func newStartup(uptime time.Duration, r prometheus.Registerer) *startup {
	return &startup{
		uptime: uptime, began: time.Now(), preKubelet: kubeletmetrics.NodeStartupPreKubelet.New(r),
		preRegistration: kubeletmetrics.NodeStartupPreRegistration.New(r), registration: kubeletmetrics.NodeStartupRegistration.New(r),
		postRegistration: kubeletmetrics.NodeStartupPostRegistration.New(r), total: kubeletmetrics.NodeStartup.New(r),
	}
}

// attempts records an attempt to register.
func (s *startup) attempts() {
	if s.attempted.IsZero() {
		s.attempted = time.Now()
	}
}

// created records that this process has created the Node.
func (s *startup) created() {
	if !s.registered.IsZero() {
		return
	}
	s.registered = time.Now()
	s.preKubelet.Set(s.uptime.Seconds())
	s.preRegistration.Set(s.attempted.Sub(s.began).Seconds())
	s.registration.Set(s.registered.Sub(s.attempted).Seconds())
}

// ready records that the API server has a ready status.
func (s *startup) ready() {
	if s.registered.IsZero() || s.done {
		return
	}
	s.done = true
	now := time.Now()
	s.postRegistration.Set(now.Sub(s.registered).Seconds())
	if s.uptime > 0 {
		s.total.Set((s.uptime + now.Sub(s.began)).Seconds())
	}
}
