package layout

import (
	"go/scanner"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// podKeys are parts of the keys that only podmeta may spell: as literals, or as the constant of k8s.io/api.
var podKeys = []string{
	"kubernetes.io/config.", "podstream.io/relay-path", "podstream.io/applied-by", "podstream.io/agent", "io.kubernetes.pod.name", "io.kubernetes.pod.uid", "io.kubernetes.container.name",
	"MirrorPodAnnotationKey",
}

// TestPodmetaOwnsTheKeys: in podexecd's product code, only podmeta spells the labels and annotations that
// describe a pod. Tests may spell them, as users do.
func TestPodmetaOwnsTheKeys(t *testing.T) {
	const owner = "../../internal/execsvc/pod/podmeta"
	for _, root := range []string{"../../internal/execsvc", "../../internal/podexecd", "../../cmd/podexecd"} {
		err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
			switch {
			case err != nil:
				return err
			case path == owner:
				return fs.SkipDir
			case entry.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go"):
				return nil
			}
			source, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			for _, key := range spelled(source) {
				t.Errorf("%s spells %s; use the constants and functions of podmeta", path, key)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if source, err := os.ReadFile(owner + "/annotations.go"); err != nil || len(spelled(source)) < len(podKeys)-1 {
		t.Errorf("podmeta spells %q, %v; want a spelling of each key", spelled(source), err)
	}
}

// TestSpellingsAreFound: a key is found as a literal or as the constant of k8s.io/api, and not in a comment.
func TestSpellingsAreFound(t *testing.T) {
	const planted = "package p\n\n// not \"kubernetes.io/config.hash\"\nconst a, b = `kubernetes.io/config.source`, v1.MirrorPodAnnotationKey\n"
	if got := spelled([]byte(planted)); len(got) != 2 {
		t.Errorf("found %q; want the two of the declaration", got)
	}
}

// spelled returns the literals and identifiers of a Go file that have a key of podKeys in them.
func spelled(source []byte) []string {
	var found []string
	var s scanner.Scanner
	s.Init(token.NewFileSet().AddFile("", -1, len(source)), source, nil, 0)
	for {
		_, tok, text := s.Scan()
		switch tok {
		case token.EOF:
			return found
		case token.STRING, token.IDENT:
			for _, key := range podKeys {
				if strings.Contains(text, key) {
					found = append(found, text)
				}
			}
		}
	}
}
