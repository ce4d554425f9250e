package userns

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"
)

// Owner is the user whose subordinate IDs are those of pods, as with the kubelet.
const Owner = "kubelet"

// Subordinate returns the range of a user in the files of subordinate user and group IDs, /etc/subuid and
// /etc/subgid. It is zero if neither has one; the two must be equal.
func Subordinate(uids, gids, user string) (Range, error) {
	u, err := subordinate(uids, user)
	if err != nil {
		return Range{}, err
	}
	g, err := subordinate(gids, user)
	if err != nil {
		return Range{}, err
	}
	if u != g {
		return Range{}, fmt.Errorf("%s and %s don't give %s the same IDs", uids, gids, user)
	}
	return u, nil
}

// subordinate returns the user's range in one file, whose lines are user:first:number. Other users' lines are
// ignored.
func subordinate(path, user string) (Range, error) {
	file, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return Range{}, nil
	}
	if err != nil {
		return Range{}, err
	}
	defer func() { _ = file.Close() }()
	var found Range
	lines := bufio.NewScanner(file)
	for number := 1; lines.Scan(); number++ {
		fields := strings.Split(strings.TrimSpace(lines.Text()), ":")
		if fields[0] != user {
			continue
		}
		r, err := parseRange(fields)
		if err == nil && found != (Range{}) {
			err = fmt.Errorf("%s has more than one range", user)
		}
		if err != nil {
			return Range{}, fmt.Errorf("%s:%d: %w", path, number, err)
		}
		found = r
	}
	if err := lines.Err(); err != nil {
		return Range{}, fmt.Errorf("read %s: %w", path, err)
	}
	return found, nil
}

func parseRange(fields []string) (Range, error) {
	if len(fields) != 3 {
		return Range{}, errors.New("want user:first:number")
	}
	from, err := strconv.ParseUint(fields[1], 10, 32)
	if err != nil {
		return Range{}, fmt.Errorf("the first ID: %w", err)
	}
	length, err := strconv.ParseUint(fields[2], 10, 32)
	if err != nil {
		return Range{}, fmt.Errorf("the number of IDs: %w", err)
	}
	return Range{First: uint32(from), Length: uint32(length)}, nil
}
