package podsummary

import (
	"fmt"

	podexecv1 "github.com/podstream/podstream/proto/podexec/v1"
)

// PullPercent returns how much of a pull is done, from 0 to 100; ok is false if that isn't known.
func PullPercent(p *podexecv1.PullProgress) (percent int, ok bool) {
	done, total := p.GetDoneBytes(), p.GetTotalBytes()
	switch {
	case p == nil || p.TotalBytes == nil || done < 0 || total < 0:
		return 0, false
	case done >= total:
		return 100, true
	}
	// Of sizes up to the largest number, without overflow.
	return int(float64(done) / float64(total) * 100), true
}

// PullProgress returns how far a pull is: "215MB of 500MB, 3 of 7 layers". Empty: not known.
func PullProgress(p *podexecv1.PullProgress) string {
	switch {
	case p == nil:
		return ""
	case p.TotalBytes == nil:
		return fmt.Sprintf("%s, %d layers", size(p.GetDoneBytes()), p.GetDoneLayers())
	case p.GetDoneLayers() >= p.GetTotalLayers():
		return fmt.Sprintf("unpacking %s, %d layers", size(p.GetTotalBytes()), p.GetTotalLayers())
	}
	return fmt.Sprintf("%s of %s, %d of %d layers", size(p.GetDoneBytes()), size(p.GetTotalBytes()), p.GetDoneLayers(), p.GetTotalLayers())
}

func size(bytes int64) string { return Size(uint64(max(bytes, 0))) } //nolint:gosec // It isn't negative.

// pulling returns the word for a pod that waits for a pull whose progress is known; empty if there is none. Of several the
// least advanced one counts.
func (p *Pod) pulling() string {
	least := 101
	for _, pull := range p.Observed.GetPulls() {
		if percent, ok := PullPercent(pull.GetProgress()); ok {
			least = min(least, percent)
		}
	}
	if least > 100 {
		return ""
	}
	return fmt.Sprintf("Pulling %d%%", least)
}
