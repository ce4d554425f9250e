package logrotation

import "time"

const (
	// looksInInterval is how often a log that doesn't grow is looked at in an interval, and readsInInterval how often the
	// containers are read.
	looksInInterval, readsInInterval = 10, 40
	// leastPause is the least pause between two looks at a log, and lookCost the pause for each container that is looked
	// at: all looks together are at most 2,000 in a second.
	leastPause = 50 * time.Millisecond
	lookCost   = 500 * time.Microsecond
	// maxBackoff is the longest pause after a failure.
	maxBackoff = 5 * time.Minute
)

// pace is how fast a log grows.
type pace struct {
	// known is set once two looks have shown the rate.
	known bool
	// size is the log's size at the last look, and at is when that was. inode is the log's file.
	size  int64
	inode uint64
	at    time.Time
	// rate is in bytes per second.
	rate float64
}

// looked returns the pace after a look. A rate that falls is believed by half at each look only, as containers write in
// bursts.
func (p pace) looked(size int64, inode uint64, now time.Time) pace {
	next := pace{known: p.known, size: size, inode: inode, at: now, rate: p.rate / 2}
	grown := size
	if inode == p.inode && size >= p.size {
		grown -= p.size
	}
	if took := now.Sub(p.at); took > 0 && !p.at.IsZero() {
		next.known, next.rate = true, max(next.rate, float64(grown)/took.Seconds())
	}
	return next
}

// renewed returns the pace of a log that the runtime has just made.
func (p pace) renewed(now time.Time) pace { return pace{known: p.known, at: now, rate: p.rate} }

// pause returns the time until the next look, half of the time in which the log reaches maxSize at this rate.
func (p pace) pause(maxSize int64, interval time.Duration, containers int) time.Duration {
	least := max(leastPause, time.Duration(containers)*lookCost)
	most := max(interval/looksInInterval, least)
	switch {
	case !p.known:
		return least
	case p.rate < 1:
		return most
	}
	half := float64(maxSize-p.size) / p.rate / 2 * float64(time.Second)
	if half > float64(most) {
		return most
	}
	return max(time.Duration(half), least)
}

// next returns the time of the next look. Logs that don't grow are looked at together: one timer for all takes far less of
// the processor than one for each.
func (p pace) next(now time.Time, maxSize int64, interval time.Duration, containers int) time.Time {
	pause := p.pause(maxSize, interval, containers)
	if most := interval / looksInInterval; pause == most {
		return now.Truncate(most).Add(most)
	}
	return now.Add(pause)
}

// backoff returns the pause after that many failures in a row.
func backoff(failures int, interval time.Duration) time.Duration {
	pause := interval
	for range failures - 1 {
		if pause >= maxBackoff {
			break
		}
		pause *= 2
	}
	return max(min(pause, maxBackoff), interval)
}
