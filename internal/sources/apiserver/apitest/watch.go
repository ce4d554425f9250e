package apitest

import (
	"net/http"
	"strconv"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	kwatch "k8s.io/apimachinery/pkg/watch"
)

// frame is one step of a watch: it sends an event, or raw bytes, or ends.
type frame struct {
	kind   kwatch.EventType
	object runtime.Object
	raw    []byte
	// half: only the first half of it is sent. cut: the connection breaks afterwards.
	half, cut bool
}

// watch is an open watch. Its frames wait in a queue, so that Compact loses none of them.
type watch struct {
	Request
	selection selection
	bookmarks bool
	// unanswered: not even the header is sent.
	unanswered bool
	signal     chan struct{}

	mu    sync.Mutex
	queue []frame
	// truncate: only half of the next event is sent.
	truncate bool
	// since is the version after which it has events.
	since uint64
}

func (w *watch) push(f frame) {
	w.mu.Lock()
	if w.truncate && f.object != nil {
		f.half, f.cut, w.truncate = true, true, false
	}
	w.queue = append(w.queue, f)
	w.mu.Unlock()
	select {
	case w.signal <- struct{}{}:
	default:
	}
}

func (w *watch) take() []frame {
	w.mu.Lock()
	defer w.mu.Unlock()
	taken := w.queue
	w.queue = nil
	return taken
}

// serveWatch serves a watch until its client disconnects, its time is over, or a test ends it.
func (s *Server) serveWatch(rw http.ResponseWriter, r *http.Request, enc encoding, req Request) {
	w, status := s.open(req)
	if status != nil {
		s.conclude(rw, enc, req, status)
		return
	}
	defer s.shut(w)
	if w.unanswered {
		<-r.Context().Done()
		return
	}
	rw.Header().Set("Content-Type", enc.contentType(true))
	flush := http.NewResponseController(rw).Flush
	if flush() != nil {
		return
	}
	if req.timeoutSeconds <= 0 {
		req.timeoutSeconds = 1800
	}
	timeout := time.NewTimer(time.Duration(req.timeoutSeconds) * time.Second)
	defer timeout.Stop()
	for {
		select {
		case <-w.signal:
		case <-timeout.C:
			return
		case <-r.Context().Done():
			return
		}
		for _, f := range w.take() {
			if !send(rw, enc, f) {
				return
			}
			if f.cut {
				_ = flush()
				panic(http.ErrAbortHandler)
			}
		}
		if flush() != nil {
			return
		}
	}
}

func send(rw http.ResponseWriter, enc encoding, f frame) bool {
	data := f.raw
	if f.object != nil {
		var err error
		if data, err = enc.frame(f.kind, f.object); err != nil {
			return false
		}
	}
	if f.half {
		data = data[:len(data)/2]
	}
	_, err := rw.Write(data)
	return err == nil
}

// open begins a watch, with its first frames in the queue.
func (s *Server) open(req Request) (*watch, *metav1.Status) {
	selected, status := selectionOf(req)
	if status != nil {
		return nil, status
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if status := s.checkWatchList(req); status != nil {
		return nil, status
	}
	if status := s.checkVersion(req.ResourceVersion); status != nil && (req.InitialEvents || status.Code != http.StatusGatewayTimeout) {
		return nil, status
	}
	req.Code = http.StatusOK
	w := &watch{
		Request: req, selection: selected, bookmarks: req.allowBookmarks, signal: make(chan struct{}, 1),
		unanswered: req.InitialEvents && s.watchList == WatchListUnanswered,
	}
	s.begin(w)
	s.watches[w] = struct{}{}
	s.log = append(s.log, req)
	s.notify()
	return w, nil
}

// begin queues the events from before the watch. The caller holds the lock, here and below.
func (s *Server) begin(w *watch) {
	if w.InitialEvents && s.watchList == WatchListEndless {
		return
	}
	if w.InitialEvents || w.ResourceVersion == "" || w.ResourceVersion == "0" {
		for _, o := range s.state.list(w.Resource, !w.InitialEvents && w.ResourceVersion == "0") {
			if w.selection.matches(w.Resource, o) {
				w.push(frame{kind: kwatch.Added, object: o})
			}
		}
		if w.InitialEvents {
			w.push(s.bookmark(w.Resource, true))
		}
		return
	}
	since, _ := strconv.ParseUint(w.ResourceVersion, 10, 64) // checkVersion has read it
	w.since = since
	if since < s.oldest {
		w.push(frame{kind: kwatch.Error, object: expired("too old resource version: " + w.ResourceVersion + " (" + s.current() + ")")})
		return
	}
	for _, e := range s.events {
		if f, ok := w.selection.frame(e); ok && e.version > since && e.resource == w.Resource {
			w.push(f)
		}
	}
}

func (s *Server) bookmark(resource string, initialEventsEnd bool) frame {
	meta := metav1.ObjectMeta{ResourceVersion: s.current()}
	if initialEventsEnd {
		meta.Annotations = map[string]string{metav1.InitialEventsAnnotationKey: "true"}
	}
	return frame{kind: kwatch.Bookmark, object: empty(resource, meta)}
}

func (s *Server) shut(w *watch) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.watches, w)
	s.notify()
}
