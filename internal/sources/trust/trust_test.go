package trust

import (
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"github.com/podstream/podstream/internal/certtest"
	"github.com/podstream/podstream/internal/logtest"
)

// TestChangedFiles: a changed file is used at the next Load, unless it is bad: then the last good one stays. That is
// logged once.
func TestChangedFiles(t *testing.T) {
	log := &logtest.Buffer{}
	path := filepath.Join(t.TempDir(), "ca.pem")
	files := &Trust{CAFile: path, Log: slog.New(slog.NewTextHandler(log, nil))}
	if _, err := files.Load(); !errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("without the file: %v", err)
	}
	write := func(data []byte) {
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(certtest.NewCA(t, "first").PEM)
	first, err := files.Load()
	if err != nil || first.RootCAs == nil {
		t.Fatalf("the first CA: %v", err)
	}
	write([]byte("half a certificate"))
	for range 2 {
		if again, err := files.Load(); err != nil || again != first {
			t.Errorf("a bad file: %v; want the configuration as before", err)
		}
	}
	if n := log.Count("level=WARN", "can't be used"); n != 1 {
		t.Errorf("a bad file was logged %d times:\n%s", n, log)
	}
	write(certtest.NewCA(t, "second").PEM)
	if second, err := files.Load(); err != nil || second.RootCAs.Equal(first.RootCAs) {
		t.Errorf("a good file isn't used: %v", err)
	}
}
