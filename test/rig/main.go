package rig

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"strconv"
	"testing"

	"go.uber.org/goleak"
)

// Main parses the flags, runs the tests of a package between start and stop, and returns the exit code. The code isn't
// 0 either if start or stop fails, or if a goroutine is left. Both functions may be nil; stop is not called if start fails.
func Main(m *testing.M, start, stop func() error) (code int) {
	flag.Parse()
	if start != nil {
		if err := start(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
	}
	code = m.Run()
	var err error
	if stop != nil {
		err = stop()
	}
	if err := errors.Join(err, goleak.Find()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return code
}

// Parallel sets how many tests run at a time, unless the flag -parallel does. It is for the start of a Main.
func Parallel(tests int) error {
	given := false
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == "test.parallel" })
	if given {
		return nil
	}
	return flag.Set("test.parallel", strconv.Itoa(tests))
}
