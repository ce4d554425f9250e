package logrotation

import (
	"errors"
	"io/fs"
	"path/filepath"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podstream/podstream/internal/execsvc/cri/logdir"
	"github.com/podstream/podstream/internal/execsvc/pod/observed"
	"github.com/podstream/podstream/internal/execsvc/pod/podmeta"
)

// containerLog is the log of one container. The manager's lock protects all fields but the constant ones.
type containerLog struct {
	// id is the container's, pod is its pod's namespace and name, and name is the log's path in the logs directory.
	// They are constant.
	id, container, pod string
	uid                types.UID
	name               string

	// running is whether the container runs.
	running bool
	// gone is set once the container isn't in the runtime any more.
	gone bool
	// repaired is set once the log was checked for what an earlier podexecd, or a container's end, has left unfinished.
	repaired bool
	// reopen is set if the runtime may still write to a rotated log although there is a new one.
	reopen bool
	// attended is set while the log is queued for a rotation worker, or such a worker has it.
	attended bool
	// compressing is set while a compression worker has the log, and busy is the temporary file that it writes.
	// compressAgain is set if there is more to compress by now, and compressionFails if the last file couldn't be.
	compressing, compressAgain, compressionFails bool
	busy                                         string
	// oddFile is set once a file was reported that no rotation has made. compressNext is the earliest time of the next
	// compression.
	oddFile      bool
	compressNext time.Time

	pace
	// next is when the log is looked at next.
	next time.Time
	// failures counts the failures in a row that are the log's own, and failing is when the first failure was, whether
	// or not it was the log's own. inOutage is set if the last one may be the runtime's: it is tried again once the runtime
	// has opened another log.
	failures int
	failing  time.Time
	inOutage bool
}

// lookAtAll looks at the logs whose time has come, and returns the time until the next look.
func (m *Manager) lookAtAll(now time.Time) time.Duration {
	between := m.cfg.Interval / readsInInterval
	if m.updated.IsZero() || now.Sub(m.updated) >= between || now.Before(m.updated) {
		m.updated = now
		found := m.cfg.Pods()
		m.set(func() { m.update(found, now) })
	}
	var looks []*containerLog
	m.set(func() {
		for _, c := range m.logs {
			if !c.attended && !c.next.After(now) {
				looks = append(looks, c)
			}
		}
	})
	for _, c := range looks {
		m.look(c, now)
	}
	pause := between - now.Sub(m.updated)
	m.set(func() {
		for _, c := range m.logs {
			if !c.attended {
				pause = min(pause, c.next.Sub(now))
			}
		}
	})
	return max(pause, time.Millisecond)
}

// update adds new containers and drops those that are gone. The caller holds the lock.
func (m *Manager) update(found []*observed.Pod, now time.Time) {
	there := map[string]bool{}
	for _, pod := range found {
		for _, of := range pod.Containers {
			if of.State != observed.Running && of.State != observed.Exited {
				continue
			}
			there[of.ID] = true
			c := m.logs[of.ID]
			if c == nil {
				c = &containerLog{
					id: of.ID, container: of.Name, pod: pod.Namespace + "/" + pod.Name, uid: pod.UID, next: now,
					name: filepath.Join(podmeta.LogDir("", pod.Namespace, pod.Name, pod.UID), podmeta.LogPath(of.Name, of.Attempt)),
				}
				m.logs[of.ID] = c
			}
			if running := of.State == observed.Running; running != c.running {
				c.running, c.repaired, c.next = running, false, now
			}
		}
	}
	for id, c := range m.logs {
		if !there[id] {
			c.gone = true
			delete(m.logs, id)
		}
	}
}

// look looks at a log, and queues it if there is something to do. An exited container's log is attended to once.
func (m *Manager) look(c *containerLog, now time.Time) {
	var running, due bool
	m.set(func() { running, due = c.running, !c.repaired || c.reopen && c.running })
	size, inode, err := int64(0), uint64(0), error(nil)
	if running {
		size, inode, err = m.measure(c.name)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case due || err != nil || running && size > 0 && size >= m.cfg.MaxSize:
		c.attended = true
		m.due.put(c)
	case !running:
		c.next = now.Add(maxBackoff)
		return
	}
	if err == nil && running {
		c.pace = c.looked(size, inode, now)
		c.next = c.pace.next(now, m.cfg.MaxSize, m.cfg.Interval, len(m.logs))
	}
}

// measure returns the log's size and file.
func (m *Manager) measure(name string) (size int64, inode uint64, err error) {
	l, err := logdir.Open(m.cfg.LogsDir, name)
	if err != nil {
		return 0, 0, err
	}
	defer l.Close()
	st, err := l.Stat(l.Name)
	return st.Size, st.Ino, err
}

func missing(err error) bool { return errors.Is(err, fs.ErrNotExist) }
