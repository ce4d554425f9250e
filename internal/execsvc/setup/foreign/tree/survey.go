package tree

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// MaxPage is the maximum number of directories in an answer.
	MaxPage = 100
	// maxDirs bounds the directories of claims that are listed: their names are in memory.
	maxDirs = 100_000
	// maxProblem bounds the text of one problem, such that an answer stays small.
	maxProblem = 300
	blockSize  = 512
)

// Survey lists the directories of claims after a name, and measures them.
type Survey struct {
	Root string `json:"root"`
	// Only is the one claim to measure. Empty: all.
	Only string `json:"only,omitempty"`
	// After is the claim after which the list begins; Max is the maximum number, at most MaxPage.
	After string `json:"after,omitempty"`
	Max   int    `json:"max,omitempty"`
	// MaxFiles bounds the files of a directory, and Budget the time for all of them: directories beyond that aren't measured.
	MaxFiles int64         `json:"maxFiles"`
	Budget   time.Duration `json:"budget"`
	// Mounts has a directory not measured. Its problem then is that something is mounted in it, or that this isn't known.
	Mounts bool `json:"mounts,omitempty"`
}

// Surveyed is the result of a Survey.
type Surveyed struct {
	Dirs []Dir `json:"dirs,omitempty"`
	// More is set if there are more directories.
	More bool `json:"more,omitempty"`
}

// Dir is the directory of a claim.
type Dir struct {
	// Claim is NAMESPACE/NAME.
	Claim string `json:"claim"`
	// Created is when the directory was created. Zero: not known.
	Created time.Time `json:"created,omitzero"`
	// Bytes are those on disk, of the Files in it.
	Bytes int64 `json:"bytes,omitempty"`
	Files int64 `json:"files,omitempty"`
	// Problem says why the directory isn't measured. Empty: it is.
	Problem string `json:"problem,omitempty"`
}

// Do lists and measures.
func (s Survey) Do(ctx context.Context) (Surveyed, error) {
	ctx, cancel := context.WithTimeout(ctx, s.Budget)
	defer cancel()
	root, err := openRoot(s.Root)
	if err != nil {
		if s.Only == "" && errors.Is(err, ErrMissing) {
			return Surveyed{}, nil // No claim was bound yet.
		}
		return Surveyed{}, err
	}
	defer root.Close()
	claims := []string{s.Only}
	if s.Only == "" {
		if claims, err = s.list(root); err != nil {
			return Surveyed{}, err
		}
	}
	var all Surveyed
	for _, claim := range claims {
		if len(all.Dirs) == min(max(s.Max, 1), MaxPage) {
			all.More = true
			break
		}
		d, err := s.measure(ctx, claim)
		switch {
		case isMissing(err) && s.Only == "":
			continue
		case isMissing(err):
			return Surveyed{}, err
		case err != nil:
			d.Problem = clip(err.Error())
		}
		all.Dirs = append(all.Dirs, d)
	}
	return all, nil
}

func clip(text string) string { return strings.ToValidUTF8(text[:min(len(text), maxProblem)], "") }

// list returns the names of the directories, sorted, after s.After.
func (s Survey) list(root *os.File) ([]string, error) {
	var claims []string
	err := eachName(root, func(namespace string) error {
		if strings.HasPrefix(namespace, ".") {
			return nil // No namespace has such a name.
		}
		dir, err := openDir(root, namespace)
		if err != nil {
			if isMissing(err) || errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ELOOP) || errors.Is(err, ErrMounted) {
				return nil // It has no claim's directory.
			}
			return err
		}
		defer dir.Close()
		return eachName(dir, func(name string) error {
			if len(claims) == maxDirs {
				return fmt.Errorf("%s has more than %d directories of claims", s.Root, maxDirs)
			}
			if claim := namespace + "/" + name; claim > s.After {
				claims = append(claims, claim)
			}
			return nil
		})
	})
	slices.Sort(claims)
	return claims, err
}

// measure measures one directory. A missing one is an error, and so is a file that isn't a directory.
func (s Survey) measure(ctx context.Context, claim string) (Dir, error) {
	d := Dir{Claim: claim}
	p, err := openPlace(s.Root, claim)
	if err != nil {
		return d, err
	}
	defer func() { _ = p.close() }()
	dir, err := p.open()
	if err != nil {
		return d, err
	}
	defer dir.Close()
	st, err := statAt(dir, "")
	if err != nil {
		return d, err
	}
	if st.Mask&unix.STATX_BTIME != 0 {
		d.Created = time.Unix(st.Btime.Sec, int64(st.Btime.Nsec))
	}
	if s.Mounts {
		return d, checkMounts(dir)
	}
	if ctx.Err() != nil {
		return d, fmt.Errorf("it isn't measured: the directories before it took %s", s.Budget)
	}
	m := meter{ctx: ctx, limit: s.MaxFiles, budget: s.Budget, seen: map[identity]bool{}, dir: &d}
	m.add(st)
	return d, m.walk(dir, 0)
}

// maxSeen bounds the files with several names that are counted once. Others count for each name.
const maxSeen = 100_000

// meter counts what is below a directory.
type meter struct {
	ctx    context.Context //nolint:containedctx // It lasts as long as one walk.
	limit  int64
	budget time.Duration
	// seen are the counted files with several names.
	seen map[identity]bool
	dir  *Dir
}

func (m *meter) add(st *unix.Statx_t) {
	if st.Nlink > 1 && !isDir(st) {
		if m.seen[identityOf(st)] {
			return
		}
		if len(m.seen) < maxSeen {
			m.seen[identityOf(st)] = true
		}
	}
	const most = 1 << 52
	m.dir.Bytes += int64(min(st.Blocks, most)) * blockSize //nolint:gosec // It is bounded.
}

func (m *meter) walk(dir *os.File, depth int) error {
	if depth == maxDepth {
		return fmt.Errorf("%s: %w", m.dir.Claim, errTooDeep)
	}
	return eachName(dir, func(name string) error {
		switch m.dir.Files++; {
		case m.dir.Files > m.limit:
			return fmt.Errorf("it has more than %d files", m.limit)
		case m.ctx.Err() != nil:
			return fmt.Errorf("it isn't measured within %s", m.budget)
		}
		st, err := statAt(dir, name)
		switch {
		case isMissing(err):
			m.dir.Files--
			return nil
		case err != nil:
			return err
		case st.Attributes&st.Attributes_mask&unix.STATX_ATTR_MOUNT_ROOT != 0:
			return fmt.Errorf("%s: %w", filepath.Join(dir.Name(), name), ErrMounted)
		}
		m.add(st)
		if !isDir(st) {
			return nil
		}
		below, err := openDir(dir, name)
		if isMissing(err) {
			return nil
		}
		if err != nil {
			return err
		}
		defer below.Close()
		return m.walk(below, depth+1)
	})
}
