package pullrecord

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/google/renameio/v2"
	kubeletconfigv1alpha1 "k8s.io/kubelet/config/v1alpha1"
	kubeletconfigv1beta1 "k8s.io/kubelet/config/v1beta1"
	kjson "sigs.k8s.io/json"

	"github.com/podstream/podstream/internal/execsvc/decide/imageaccess"
)

// maxFile is how many bytes of a file are read. Records that are written have less (imageaccess.Merge).
const maxFile = 2 << 20

// prefix begins the names of the files. It is the kubelet's.
const prefix = "sha256-"

// The kinds of the files.
const (
	intentKind = "ImagePullIntent"
	recordKind = "ImagePulledRecord"
)

// fileName returns the name of the file for an image's name or ID.
func fileName(of string) string { return fmt.Sprintf("%s%x", prefix, sha256.Sum256([]byte(of))) }

// errDamaged is the error of a file that isn't what its name says.
var errDamaged = errors.New("the file is damaged")

// readRecord reads the record of an image. It is nil if there is none.
func readRecord(dir, id string) (*imageaccess.Record, error) {
	record, err := readRecordFile(filepath.Join(dir, fileName(id)))
	if err == nil && record != nil && record.ImageRef != id {
		return nil, fmt.Errorf("%w: it is of another image", errDamaged)
	}
	return record, err
}

func readRecordFile(path string) (*imageaccess.Record, error) {
	var record imageaccess.Record
	found, err := readFile(path, recordKind, &record, func() (string, string) { return record.APIVersion, record.Kind })
	if err != nil || !found {
		return nil, err
	}
	return &record, nil
}

// readFile decodes a file of the kind, in either of the kubelet's versions. As with the kubelet, an unknown field is an
// error: it may restrict what the others mean.
func readFile(path, kind string, into any, is func() (version, kind string)) (found bool, err error) {
	file, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer file.Close()
	data, err := io.ReadAll(io.LimitReader(file, maxFile+1))
	if err != nil {
		return false, err
	}
	if len(data) > maxFile {
		return false, fmt.Errorf("%w: it has more than %d bytes", errDamaged, maxFile)
	}
	strict, err := kjson.UnmarshalStrict(data, into)
	if err := errors.Join(append(strict, err)...); err != nil {
		return false, fmt.Errorf("%w: %w", errDamaged, err)
	}
	versions := []string{kubeletconfigv1beta1.SchemeGroupVersion.String(), kubeletconfigv1alpha1.SchemeGroupVersion.String()}
	if version, got := is(); got != kind || !slices.Contains(versions, version) {
		return false, fmt.Errorf("%w: it is a %q of %q", errDamaged, got, version)
	}
	return true, nil
}

// writeFile replaces a file, and returns when it is on the disk under its name.
func writeFile(dir, of string, content any) error {
	data, err := json.Marshal(content)
	if err != nil {
		return err
	}
	if err := renameio.WriteFile(filepath.Join(dir, fileName(of)), append(data, '\n'), 0o600, renameio.IgnoreUmask()); err != nil {
		return err
	}
	opened, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer opened.Close()
	return opened.Sync()
}

// list returns the names of the files in the directory.
func list(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, entry := range entries {
		if !entry.IsDir() && strings.HasPrefix(entry.Name(), prefix) && !strings.HasSuffix(entry.Name(), ".tmp") {
			names = append(names, entry.Name())
		}
	}
	return names, nil
}

// makeDir makes a directory, and removes from it what an interrupted write has left.
func makeDir(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, entry := range entries {
		if strings.HasPrefix(entry.Name(), "."+prefix) {
			if err := os.Remove(filepath.Join(dir, entry.Name())); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
		}
	}
	return nil
}
