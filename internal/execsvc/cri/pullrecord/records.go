package pullrecord

import (
	"fmt"
	"hash/maphash"
	"log/slog"
	"path/filepath"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubeletconfigv1beta1 "k8s.io/kubelet/config/v1beta1"
	"k8s.io/utils/clock"

	"github.com/podstream/podstream/internal/execsvc/decide/imageaccess"
	"github.com/podstream/podstream/internal/imagepolicy"
)

// Config configures Records.
type Config struct {
	// RootDir is podexecd's root directory; the files are in its directory image_manager.
	RootDir string
	// Policy is the node's policy.
	Policy imagepolicy.Policy
	// Clock is for the records' times, which nothing depends on. Nil means the real one.
	Clock clock.PassiveClock
	// Metrics registers the kubelet's metrics of its image pull manager. It may be nil.
	Metrics prometheus.Registerer
	// Logger receives a line for each file that can't be used. Nil discards them.
	Logger *slog.Logger
}

// Records are the records of pulls. They are safe for concurrent use.
type Records struct {
	cfg             Config
	pulling, pulled string
	metrics         metrics
	// locks are held while the file of an image or a name is written or removed.
	locks [16]sync.Mutex
	seed  maphash.Seed
	// counting is held while the files are counted.
	counting sync.Mutex

	mu sync.Mutex
	// intents are the pulls that are under way, or whose outcome isn't known. damaged has the names of the files of
	// intents that can't be used.
	intents map[*Intent]bool
	damaged map[string]bool
	// writes counts the changes of records. written has, by file name, the count at the last change since the previous
	// listing but one.
	writes  uint64
	written map[string]uint64
	// listed has the IDs of the images in the last listing, absent the files of images that it didn't have. The maps are
	// replaced, not changed.
	listed, absent map[string]bool
}

// New returns the Records in a directory, which it makes if necessary. The intents that it has are pulls that were
// interrupted.
func New(cfg Config) (*Records, error) {
	if cfg.Clock == nil {
		cfg.Clock = clock.RealClock{}
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	dir := filepath.Join(cfg.RootDir, "image_manager")
	r := &Records{
		cfg: cfg, pulling: filepath.Join(dir, "pulling"), pulled: filepath.Join(dir, "pulled"), metrics: newMetrics(cfg.Metrics),
		seed: maphash.MakeSeed(), intents: map[*Intent]bool{}, damaged: map[string]bool{}, written: map[string]uint64{}, absent: map[string]bool{},
	}
	for _, dir := range []string{r.pulling, r.pulled} {
		if err := makeDir(dir); err != nil {
			return nil, fmt.Errorf("make the directory of image pull records: %w", err)
		}
	}
	if err := r.readIntents(); err != nil {
		return nil, fmt.Errorf("read the image pull intents: %w", err)
	}
	r.count()
	return r, nil
}

// lock locks the file of an image or a name.
func (r *Records) lock(of string) (unlock func()) {
	l := &r.locks[maphash.String(r.seed, of)%uint64(len(r.locks))]
	l.Lock()
	return l.Unlock
}

// Check is part of image.Records: it decides whether a pod may use an image that the node has. A pull secret that a
// Decision returns as learned is added to the record.
func (r *Records) Check(u imageaccess.Use) imageaccess.Decision {
	// In this order: an Intent ends after the record is written.
	var known imageaccess.Known
	known.Pulled, known.IntendedBySameName = r.intended(u)
	record, err := readRecord(r.pulled, u.ID)
	if err != nil {
		r.cfg.Logger.Warn("the record of an image's pulls can't be used; the image must be pulled again", "image", u.ID,
			"file", filepath.Join(r.pulled, fileName(u.ID)), "error", err)
		known.Damaged = true
	}
	if path := r.damagedIntent(u); path != "" && record == nil {
		r.cfg.Logger.Warn("an image pull intent can't be used; the image must be pulled again", "image", u.Given, "file", path)
		known.Damaged = true
	}
	known.Record, known.Pulled = record, known.Pulled || record != nil
	d := imageaccess.Decide(r.cfg.Policy, u, known)
	if d.Access != imageaccess.Unknown {
		r.metrics.checks.WithLabelValues(d.Result).Inc()
	}
	if d.Learned != nil {
		if err := r.add(u.ID, u.Repository, true, []imageaccess.Login{{Secret: d.Learned}}); err != nil {
			r.cfg.Logger.Warn("can't add a pull secret to the record of an image's pulls", "image", u.ID, "error", err)
		}
	}
	return d
}

// add adds logins to the record of an image. named reports whether the runtime has a name of the repository for it. A
// record that can't be read is replaced, as by the kubelet.
func (r *Records) add(id, repository string, named bool, logins []imageaccess.Login) error {
	defer r.lock(id)()
	// Also if the record doesn't change: the image is there again, whatever a listing in progress has.
	r.mu.Lock()
	r.writes++
	r.written[fileName(id)] = r.writes
	r.mu.Unlock()
	record, err := readRecord(r.pulled, id)
	if err != nil {
		r.cfg.Logger.Warn("the record of an image's pulls can't be used; it is replaced", "image", id, "error", err)
	}
	switch {
	case err != nil:
		record = &imageaccess.Record{ImageRef: id} // By which names it was pulled before isn't known.
	case record == nil:
		record = imageaccess.NewRecord(id)
	}
	changed := imageaccess.Merge(record, repository, logins)
	// A runtime may complete a short name by another registry than docker.io; then it isn't known what it has pulled.
	if !named {
		changed = imageaccess.Incomplete(record) || changed
	}
	if !changed {
		return nil
	}
	record.TypeMeta = metav1.TypeMeta{Kind: recordKind, APIVersion: kubeletconfigv1beta1.SchemeGroupVersion.String()}
	record.LastUpdatedTime = metav1.NewTime(r.cfg.Clock.Now())
	if err := writeFile(r.pulled, id, record); err != nil {
		return err
	}
	r.count()
	return nil
}

// count updates the metrics of the files.
func (r *Records) count() {
	r.counting.Lock()
	defer r.counting.Unlock()
	for _, m := range []struct {
		gauge prometheus.Gauge
		dir   string
	}{{r.metrics.intents, r.pulling}, {r.metrics.records, r.pulled}} {
		if names, err := list(m.dir); err == nil {
			m.gauge.Set(float64(len(names)))
		}
	}
}
