package boltfile

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"slices"
)

// bbolt's file format: version 2, in the byte order of the machine. The first two pages are meta pages, of which the
// one with the higher transaction id is valid; all others belong to a tree of pages, to the free list, or are listed
// in it.
const (
	boltMagic   = 0xED0CDAED
	boltVersion = 2

	pageHeaderSize   = 16
	elementSize      = 16
	bucketHeaderSize = 16
	metaSize         = 64

	branchPage = 0x01
	leafPage   = 0x02
	metaPage   = 0x04
	freePage   = 0x10

	bucketElement = 0x01

	minPageSize, maxPageSize = 1 << 10, 1 << 16
	// maxDepth is the bound for trees, including those of nested buckets: far more than any store needs. A cycle
	// exceeds it.
	maxDepth = 64
)

var order = binary.NativeEndian

// pageUse is the use of a page.
type pageUse byte

const (
	unused pageUse = iota
	used
	freed
)

// walk goes through the pages of a file.
type walk struct {
	file     io.ReaderAt
	pageSize uint64
	// uses has an element for each page below the high-water mark.
	uses []pageUse
}

type meta struct{ pageSize, root, freelist, pages, txid uint64 }

// checkPages returns an error unless the pages of a bbolt file are safe to map, and consistent. It reads each page
// once. Unlike bbolt it requires both meta pages to be good: a bad one may have been the newer one, and the other
// would set the store back to an older state. An interrupted write doesn't produce such a page, as its relevant part
// is smaller than a disk's sector.
func checkPages(file io.ReaderAt, size int64) error {
	if size < 4*minPageSize {
		return fmt.Errorf("it has only %d bytes", size)
	}
	first, err := readMeta(file, 0, 0)
	if err != nil {
		return err
	}
	current, err := readMeta(file, 1, first.pageSize)
	if err != nil {
		return err
	}
	if current.pageSize != first.pageSize {
		return fmt.Errorf("the meta pages have page sizes of %d and %d bytes", first.pageSize, current.pageSize)
	}
	if first.txid > current.txid {
		current = first
	}
	if have := uint64(size) / current.pageSize; current.pages > have || current.pages < 4 {
		return fmt.Errorf("it has %d pages by its meta page, and %d by its size of %d bytes", current.pages, have, size)
	}
	w := &walk{file: file, pageSize: current.pageSize, uses: make([]pageUse, current.pages)}
	w.uses[0], w.uses[1] = used, used
	if err := w.freelist(current.freelist); err != nil {
		return err
	}
	if err := w.tree(current.root, nil, nil, 0); err != nil {
		return err
	}
	if i := slices.Index(w.uses, unused); i >= 0 {
		return fmt.Errorf("page %d is neither used nor free", i)
	}
	return nil
}

func readMeta(file io.ReaderAt, id, pageSize uint64) (meta, error) {
	b := make([]byte, pageHeaderSize+metaSize)
	if _, err := file.ReadAt(b, int64(id*pageSize)); err != nil {
		return meta{}, fmt.Errorf("meta page %d: %w", id, err)
	}
	m := b[pageHeaderSize:]
	sum := fnv.New64a()
	_, _ = sum.Write(m[:metaSize-8])
	switch {
	case order.Uint32(m) != boltMagic:
		return meta{}, fmt.Errorf("meta page %d isn't one of a bbolt file", id)
	case order.Uint32(m[4:]) != boltVersion:
		return meta{}, fmt.Errorf("meta page %d has version %d of bbolt's format; want %d", id, order.Uint32(m[4:]), boltVersion)
	case order.Uint64(m[metaSize-8:]) != sum.Sum64():
		return meta{}, fmt.Errorf("the checksum of meta page %d is wrong", id)
	case order.Uint64(b) != id || order.Uint16(b[8:]) != metaPage:
		return meta{}, fmt.Errorf("the header of meta page %d is wrong", id)
	}
	out := meta{
		pageSize: uint64(order.Uint32(m[8:])), root: order.Uint64(m[16:]),
		freelist: order.Uint64(m[32:]), pages: order.Uint64(m[40:]), txid: order.Uint64(m[48:]),
	}
	if n := out.pageSize; n < minPageSize || n > maxPageSize || n&(n-1) != 0 {
		return meta{}, fmt.Errorf("meta page %d has a page size of %d bytes", id, n)
	}
	return out, nil
}

// read reads a page and its overflow pages. None of them may have been read before.
func (w *walk) read(id uint64) (page []byte, flags uint16, err error) {
	pages := uint64(len(w.uses))
	if id >= pages {
		return nil, 0, fmt.Errorf("page %d is beyond the last one, %d", id, pages-1)
	}
	var header [pageHeaderSize]byte
	if _, err := w.file.ReadAt(header[:], int64(id*w.pageSize)); err != nil {
		return nil, 0, fmt.Errorf("page %d: %w", id, err)
	}
	if self := order.Uint64(header[:]); self != id {
		return nil, 0, fmt.Errorf("page %d has the number %d", id, self)
	}
	end := id + 1 + uint64(order.Uint32(header[12:]))
	if end > pages {
		return nil, 0, fmt.Errorf("page %d ends at page %d, beyond the last one, %d", id, end-1, pages-1)
	}
	for i := id; i < end; i++ {
		if w.uses[i] != unused {
			return nil, 0, fmt.Errorf("page %d, met as part of page %d, is free or used elsewhere", i, id)
		}
		w.uses[i] = used
	}
	page = make([]byte, (end-id)*w.pageSize)
	if _, err := w.file.ReadAt(page, int64(id*w.pageSize)); err != nil {
		return nil, 0, fmt.Errorf("page %d: %w", id, err)
	}
	return page, order.Uint16(header[8:]), nil
}

// freelist reads the list of free pages and marks them. A file without one has an id beyond all pages, which isn't a
// file of ours.
func (w *walk) freelist(id uint64) error {
	page, flags, err := w.read(id)
	if err != nil {
		return fmt.Errorf("free list: %w", err)
	}
	if flags != freePage {
		return fmt.Errorf("page %d isn't a free list", id)
	}
	ids, count := page[pageHeaderSize:], uint64(order.Uint16(page[10:]))
	if count == 0xFFFF {
		count, ids = order.Uint64(ids), ids[8:]
	}
	if count > uint64(len(ids)/8) {
		return fmt.Errorf("the free list has %d pages, and space for %d", count, len(ids)/8)
	}
	last := uint64(0)
	for i := range count {
		free := order.Uint64(ids[8*i:])
		if free <= last || free >= uint64(len(w.uses)) || w.uses[free] != unused {
			return fmt.Errorf("page %d can't be free after page %d", free, last)
		}
		last, w.uses[free] = free, freed
	}
	return nil
}

// tree walks a page and all pages below it. Its keys must be from low to below high; nil is no limit.
func (w *walk) tree(id uint64, low, high []byte, depth int) error {
	if depth > maxDepth {
		return fmt.Errorf("page %d is %d pages deep", id, depth)
	}
	page, flags, err := w.read(id)
	if err != nil {
		return err
	}
	if err := w.node(page, flags, low, high, depth); err != nil {
		return fmt.Errorf("page %d: %w", id, err)
	}
	return nil
}

func (w *walk) node(page []byte, flags uint16, low, high []byte, depth int) error {
	elements, err := parseNode(page, flags)
	if err != nil {
		return err
	}
	for i, e := range elements {
		if bytes.Compare(e.key, low) < 0 || i > 0 && bytes.Equal(e.key, low) || high != nil && bytes.Compare(e.key, high) >= 0 {
			return fmt.Errorf("its key %d isn't in order", i)
		}
		low = e.key
		switch {
		case flags == branchPage:
			next := high
			if i+1 < len(elements) {
				next = elements[i+1].key
			}
			err = w.tree(e.child, e.key, next, depth+1)
		case e.bucket && e.child != 0:
			err = w.tree(e.child, nil, nil, depth+1)
		case e.bucket:
			err = w.inline(e.value[bucketHeaderSize:], depth)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// inline walks the page of a small bucket, which is the value of its element.
func (w *walk) inline(page []byte, depth int) error {
	if len(page) < pageHeaderSize || order.Uint16(page[8:]) != leafPage || depth >= maxDepth {
		return errors.New("it has an inline bucket that isn't one")
	}
	return w.node(page, leafPage, nil, nil, depth+1)
}

// element is one of a branch or leaf page.
type element struct {
	key, value []byte
	bucket     bool
	// child is the page below a branch's element, or the root page of a bucket; zero if that is inline.
	child uint64
}

func parseNode(page []byte, flags uint16) ([]element, error) {
	count := int(order.Uint16(page[10:]))
	if flags != leafPage && (flags != branchPage || count == 0) {
		return nil, fmt.Errorf("it is neither a branch nor a leaf: type %#x with %d elements", flags, count)
	}
	if pageHeaderSize+count*elementSize > len(page) {
		return nil, fmt.Errorf("its %d elements don't fit it", count)
	}
	elements := make([]element, count)
	for i := range elements {
		at := pageHeaderSize + i*elementSize
		if err := elements[i].parse(page[at:], flags); err != nil {
			return nil, fmt.Errorf("its element %d %w", i, err)
		}
	}
	return elements, nil
}

// parse reads an element at the start of b, which goes on to the end of the page.
func (e *element) parse(b []byte, flags uint16) error {
	var kind, position, keySize, valueSize uint64
	if flags == branchPage {
		position, keySize, e.child = uint64(order.Uint32(b)), uint64(order.Uint32(b[4:])), order.Uint64(b[8:])
	} else {
		kind, position = uint64(order.Uint32(b)), uint64(order.Uint32(b[4:]))
		keySize, valueSize = uint64(order.Uint32(b[8:])), uint64(order.Uint32(b[12:]))
	}
	if keySize == 0 || position+keySize+valueSize > uint64(len(b)) || kind > bucketElement {
		return fmt.Errorf("of kind %d, with %d and %d bytes at %d, can't be one", kind, keySize, valueSize, position)
	}
	e.key = b[position : position+keySize]
	e.value = b[position+keySize : position+keySize+valueSize]
	if e.bucket = kind == bucketElement; e.bucket {
		if valueSize < bucketHeaderSize {
			return errors.New("is too small for a bucket")
		}
		e.child = order.Uint64(e.value)
	}
	return nil
}
