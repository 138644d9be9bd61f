// Package zonefile changes some records of a DNS zone file (RFC 1035, section 5)
// and leaves all else as it is, to the byte.
//
//		web.shop.example.com. 60 IN A 10.96.0.7 ; managed-by=dns-zone shop/web
//		└── absolute: no $ORIGIN matters       └── the tag: whose record it is
//
//	  - Readers see the file as it was or as it will be, whole, whatever dies when:
//	    it is written aside, synced to disk and renamed.
//	  - The serial of the SOA record grows by one with each change, and only then;
//	    never by less than what this process has written before (RFC 1982).
//	  - Several processes may change it at once: each change is made under a lock,
//	    from the contents of the file at that time.
//	  - A file that is not understood is not written.
//
// It does not check foreign records, does not follow $INCLUDE, and cannot lock
// editors out: one that saves between our read and our rename wins nothing and loses
// only a moment, because that is noticed; the last microseconds are not.
package zonefile
