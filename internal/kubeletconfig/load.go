package kubeletconfig

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"

	"github.com/podstream/podstream/internal/kubeletconfig/document"
)

// dropInSuffix is the suffix of the names of drop-ins.
const dropInSuffix = ".conf"

// Paths are where the configuration is. Either may be empty.
type Paths struct {
	// Config is one file, --config.
	Config string
	// Dir is a directory of drop-ins, --config-dir: all *.conf in and beneath it, in lexical order. Names that begin
	// with a dot are skipped: they belong to editors, or are the directories behind a mounted ConfigMap.
	Dir string
	// Given is set if the paths are on the command line of this program: then Config may be a pipe, as the shell's
	// <(command) is.
	Given bool
}

// File is one file as it was read.
type File struct {
	Path string
	Data []byte
	// DropIn is set unless it is the main file.
	DropIn bool
}

// Load reads the files: the main one first, then the drop-ins.
func Load(paths Paths) ([]File, error) {
	var files []File
	if paths.Config != "" {
		read := ReadFile
		if paths.Given {
			read = readGiven
		}
		data, err := read(paths.Config, document.MaxSize)
		if err != nil {
			return nil, fmt.Errorf("--config: %w", err)
		}
		files = append(files, File{Path: paths.Config, Data: data})
	}
	if paths.Dir == "" {
		return files, nil
	}
	// The trailing slash follows a symbolic link.
	err := filepath.WalkDir(strings.TrimSuffix(paths.Dir, "/")+"/", func(path string, entry fs.DirEntry, err error) error {
		switch name := filepath.Base(path); {
		case err != nil:
			return err
		case strings.HasPrefix(name, ".") && entry.IsDir() && filepath.Clean(path) != filepath.Clean(paths.Dir):
			return fs.SkipDir
		case strings.HasPrefix(name, ".") || entry.IsDir() || filepath.Ext(name) != dropInSuffix:
			return nil
		}
		path = filepath.Clean(path)
		data, err := ReadFile(path, document.MaxSize)
		if err != nil {
			return err
		}
		files = append(files, File{Path: path, Data: data, DropIn: true})
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("--config-dir: %w", err)
	}
	return files, nil
}

// Parse reads the documents of the files, in order. Each file must have at least one.
func Parse(files []File) ([]Document, error) {
	var docs []Document
	var mistakes []error
	for _, f := range files {
		parsed, err := document.Parse(f.Path, f.Data)
		if err == nil && len(parsed) == 0 {
			err = &document.FieldError{File: f.Path, Reason: "it is empty"}
		}
		mistakes = append(mistakes, err)
		for _, d := range parsed {
			docs = append(docs, Document{Document: d, DropIn: f.DropIn})
		}
	}
	return docs, errors.Join(mistakes...)
}

// Document is a document of the main file, or of a drop-in.
type Document struct {
	*document.Document
	DropIn bool
}
