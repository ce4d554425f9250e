package applied

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"go.etcd.io/bbolt"

	"github.com/podstream/podstream/internal/boltfile"
	"github.com/podstream/podstream/internal/write"
)

const (
	storeName = "documents.db"
	format    = "1"
)

var (
	headBucket      = []byte("head")
	documentsBucket = []byte("documents")
	formatKey       = []byte("format")
	checkKey        = []byte("check")
	noteKey         = []byte("note")
	castagnoli      = crc32.MakeTable(crc32.Castagnoli)
)

// errForeign is wrapped if the directory or a file in it isn't the store's own.
var errForeign = errors.New("it isn't podconfigd's own")

// record is a stored document.
type record struct {
	Set     string    `json:"set"`
	Caller  string    `json:"caller"`
	Applied time.Time `json:"applied"`
	Text    string    `json:"text"`
}

// documents are a source's documents. A map is never changed once it is in use.
type documents = map[write.Key]*write.Document

// checkPlace makes the directory, and returns an error if it or a file in it isn't the daemon's own: a link would lead to
// another file.
func checkPlace(dir string) error {
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	if err := checkOwn(dir, fs.ModeDir|0o700); err != nil {
		return err
	}
	for _, name := range []string{storeName, storeName + ".new"} {
		if err := checkOwn(filepath.Join(dir, name), 0o600); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// checkOwn checks the type, the owner, the permissions and the names of a file or directory, without following a link.
func checkOwn(path string, want fs.FileMode) error {
	info, err := os.Lstat(path)
	if err != nil {
		return err
	}
	of, _ := info.Sys().(*syscall.Stat_t)
	switch {
	case info.Mode().Type() != want.Type():
		return fmt.Errorf("%s: %w: its mode is %s", path, errForeign, info.Mode())
	case of != nil && int(of.Uid) != os.Geteuid():
		return fmt.Errorf("%s: %w: it belongs to uid %d", path, errForeign, of.Uid)
	case info.Mode().Perm()&^want.Perm() != 0:
		return fmt.Errorf("%s: %w: its mode is %s, and others may use it", path, errForeign, info.Mode())
	case want.IsRegular() && of != nil && of.Nlink > 1:
		return fmt.Errorf("%s: %w: it has %d names", path, errForeign, of.Nlink)
	}
	return nil
}

// openStore opens the store and reads its documents, which have no origins yet, and the note of the last write, if that
// wasn't settled.
func openStore(dir string, opts boltfile.Options) (file *boltfile.File, docs documents, note []byte, err error) {
	file, err = boltfile.Open(filepath.Join(dir, storeName), opts)
	if err != nil {
		if file != nil {
			_ = file.Close()
		}
		return nil, nil, nil, err
	}
	err = file.View(func(tx *bbolt.Tx) error {
		if docs, err = readDocuments(tx); err == nil {
			note = bytes.Clone(tx.Bucket(headBucket).Get(noteKey))
		}
		return err
	})
	if err != nil {
		_ = file.Close()
		return nil, nil, nil, err
	}
	return file, docs, note, nil
}

// createStore makes a store with the documents.
func createStore(dir string, docs documents, opts boltfile.Options) (*boltfile.File, error) {
	file, err := boltfile.Create(filepath.Join(dir, storeName), opts, func(tx *bbolt.Tx) error {
		head, err := tx.CreateBucket(headBucket)
		if err == nil {
			err = head.Put(formatKey, []byte(format))
		}
		if err == nil {
			_, err = tx.CreateBucket(documentsBucket)
		}
		if err != nil {
			return err
		}
		l := ledger{tx: tx}
		for _, d := range docs {
			if err := l.put(d); err != nil {
				return err
			}
		}
		return l.close()
	}, nil)
	if err != nil && file != nil {
		_ = file.Close()
		file = nil
	}
	return file, err
}

// ledger changes documents in a transaction, and keeps the check of all.
type ledger struct {
	tx    *bbolt.Tx
	count uint64
	sum   uint32
}

func openLedger(tx *bbolt.Tx) (ledger, error) {
	l := ledger{tx: tx}
	head, docs := tx.Bucket(headBucket), tx.Bucket(documentsBucket)
	if head == nil {
		return l, fmt.Errorf("%w: it has no head", boltfile.ErrDamaged)
	}
	if got := string(head.Get(formatKey)); got != format {
		found := 0
		if _, err := fmt.Sscanf(got, "%d", &found); err != nil {
			return l, fmt.Errorf("%w: it has no format", boltfile.ErrDamaged)
		}
		return l, &boltfile.FormatError{Found: found, Known: 1}
	}
	check := head.Get(checkKey)
	if docs == nil || len(check) != 12 {
		return l, fmt.Errorf("%w: it has no documents", boltfile.ErrDamaged)
	}
	l.count, l.sum = binary.BigEndian.Uint64(check), binary.BigEndian.Uint32(check[8:])
	return l, nil
}

// close writes the check.
func (l *ledger) close() error {
	check := binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint64(nil, l.count), l.sum)
	return l.tx.Bucket(headBucket).Put(checkKey, check)
}

func (l *ledger) put(d *write.Document) error {
	if err := l.remove(d.Key); err != nil {
		return err
	}
	payload, err := json.Marshal(record{Set: d.Set, Caller: d.Caller, Applied: d.Applied, Text: string(d.Text)})
	if err != nil {
		return err
	}
	key := keyBytes(d.Key)
	sum := checksum(key, payload)
	l.count, l.sum = l.count+1, l.sum^sum
	return l.tx.Bucket(documentsBucket).Put(key, append(binary.BigEndian.AppendUint32(nil, sum), payload...))
}

func (l *ledger) remove(of write.Key) error {
	docs, key := l.tx.Bucket(documentsBucket), keyBytes(of)
	value := docs.Get(key)
	if len(value) < 4 {
		return nil
	}
	l.count, l.sum = l.count-1, l.sum^binary.BigEndian.Uint32(value)
	return docs.Delete(key)
}

func checksum(key, payload []byte) uint32 {
	return crc32.Update(crc32.Checksum(key, castagnoli), castagnoli, payload)
}

// readDocuments returns all documents. Any that can't be verified makes the store damaged.
func readDocuments(tx *bbolt.Tx) (documents, error) {
	l, err := openLedger(tx)
	if err != nil {
		return nil, err
	}
	out, found := documents{}, ledger{}
	err = tx.Bucket(documentsBucket).ForEach(func(k, v []byte) error {
		if len(v) < 4 || checksum(k, v[4:]) != binary.BigEndian.Uint32(v) {
			return fmt.Errorf("%w: the checksum of document %q is wrong", boltfile.ErrDamaged, k)
		}
		var r record
		key, ok := keyFrom(k)
		if err := json.Unmarshal(v[4:], &r); err != nil || !ok {
			return fmt.Errorf("%w: document %q can't be read", boltfile.ErrDamaged, k)
		}
		found.count, found.sum = found.count+1, found.sum^binary.BigEndian.Uint32(v)
		out[key] = &write.Document{
			Key: key, Set: r.Set, Caller: r.Caller, Applied: r.Applied, Text: []byte(r.Text), Digest: write.DigestOf([]byte(r.Text)),
		}
		return nil
	})
	if err == nil && (found.count != l.count || found.sum != l.sum) {
		err = fmt.Errorf("%w: it has %d documents, and they aren't the %d that were stored", boltfile.ErrDamaged, found.count, l.count)
	}
	return out, err
}

func keyBytes(k write.Key) []byte { return []byte(k.Kind + "\x00" + k.Namespace + "\x00" + k.Name) }

func keyFrom(key []byte) (write.Key, bool) {
	parts := strings.Split(string(key), "\x00")
	if len(parts) != 3 {
		return write.Key{}, false
	}
	return write.Key{Kind: parts[0], Namespace: parts[1], Name: parts[2]}, true
}

// settle removes the note of the last write.
func settle(file *boltfile.File) error {
	return file.Update(func(tx *bbolt.Tx) error { return tx.Bucket(headBucket).Delete(noteKey) })
}

// commit stores the steps of a plan, and a note, in one transaction.
func commit(file *boltfile.File, p write.Plan, note []byte) error {
	return file.Update(func(tx *bbolt.Tx) error {
		l, err := openLedger(tx)
		for _, s := range p.Steps {
			switch {
			case err != nil:
				return err
			case !s.Changes():
			case s.Next != nil:
				err = l.put(s.Next)
			default:
				err = l.remove(s.Key)
			}
		}
		if err == nil && note != nil {
			err = tx.Bucket(headBucket).Put(noteKey, note)
		}
		if err != nil {
			return err
		}
		return l.close()
	})
}
