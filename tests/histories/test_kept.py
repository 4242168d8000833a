"""Histories that failed once, as short as they could be made."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.histories.points import POINTS
from tests.histories.real import Jvm
from tests.histories.steps import parse_history
from tests.histories.world import carry_out

if TYPE_CHECKING:
    from pathlib import Path

KEPT = {
    "cut and written on with fewer bytes": """
        start
        put count=3 seed=375135 kind=mixed
        open
        truncate back=2
        put count=1 seed=132837 kind=same
    """,
    "cut and written on with as many bytes": """
        start
        put count=2 seed=843080 kind=same
        open
        truncate back=1
        put count=1 seed=699105 kind=same
    """,
    "an ordinary restart cuts at what the broker cannot parse": """
        start
        put count=1 seed=652427 kind=same
        open
        poison seed=834752
        put count=2 seed=820790 kind=same
        crash
        start
        put count=2 seed=110590 kind=shorter
    """,
    "written past a cut that an old BLANK hides, and expired while nobody looked": """
        settings version=4.9.8 log=16384 queue=4 items=40 live=1
        start
        put count=8 seed=660939 kind=large
        open
        truncate back=2
        put count=1 seed=749442 kind=same
        put count=2 seed=96182 kind=twin
        truncate back=3
        crash
        start
        close
        put count=2 seed=881225 kind=shorter
        expire count=1
    """,
    "the last byte of the log is a zero": """
        settings version=4.9.8 log=8192
        start
        put count=1 seed=935713 kind=zero
    """,
    "a file of the output is removed after a clean stop": """
        start
        put count=3 seed=61902 kind=mixed
        open
        close
        lose what=file seed=887807
    """,
    "a queue of the output is removed after a clean stop": """
        start
        put count=1 seed=969124 kind=same
        open
        close
        lose what=queue seed=284858
        put count=2 seed=1 kind=same
        open
    """,
    "cut between parsing and writing, records of one size": """
        start
        put count=2 seed=456795 kind=same
        pause at=parsed number=1 during=poll { truncate back=1; put count=2 seed=135544 kind=same }
    """,
    "cut between parsing and writing, records of other sizes": """
        start
        put count=1 seed=551803 kind=same
        pause at=parsed number=1 during=poll { put count=2 seed=818041 kind=same; truncate back=2; put count=1 seed=589888 kind=shorter }
    """,
    "a stream past a log that was cut and has grown again": """
        start
        put count=2 seed=456970 kind=same
        stream
        truncate back=1
        put count=1 seed=619180 kind=same
    """,
    "files go while the log is followed": """
        settings version=4.9.8 log=4096 queue=4 items=12
        start
        put count=9 seed=164977 kind=mixed
        put count=6 seed=160836 kind=mixed
        put count=6 seed=217417 kind=same
        truncate back=2
    """,
    "expired after the only record of the output was cut": """
        start
        put count=1 seed=775450 kind=same
        open
        close
        truncate back=1
        put count=8 seed=626977 kind=large
        expire count=1
    """,
    "what expired is lost where an output begins again": """
        start
        put count=7 seed=450517 kind=large
        put count=1 seed=486315 kind=same
        open
        pause at=disk.populate number=1 during=poll seconds=0 { stop; tear back=1 byte=0 rest=zeros; expire count=1 }
    """,
    "a stream has read a record that ends with a zero before its broker starts": """
        settings version=4.9.8
        start
        put count=1 seed=3 kind=zero
        stop
        stream
        start
        stream
        put count=1 seed=4 kind=same
    """,
    "properties are lost after a stream has read them": """
        start
        put count=2 seed=833926 kind=mixed
        stream
        stop
        tear back=1 byte=485 rest=ones
        start
        put count=8 seed=299958 kind=shorter
    """,
    "an extension's file has ended with a unit that is cut": """
        settings version=5.5.0 log=8192 queue=8 items=40 ext=1
        start
        put count=10 seed=272386 kind=large
        pause at=disk.remove_directory number=1 during=poll seconds=0 { put count=4 seed=289935 kind=large }
        pause at=disk.map_file number=1 during=poll seconds=0 { put count=2 seed=627636 kind=large }
        truncate back=2
        put count=1 seed=587115 kind=same
    """,
    "killed while an extension goes back to its file's last unit": """
        settings version=4.9.8 log=16384 queue=50 items=12 ext=1
        start
        put count=6 seed=232943 kind=same
        put count=3 seed=485377 kind=same
        pause at=disk.make_directories number=1 during=poll seconds=9 { put count=4 seed=217830 kind=same }
        put count=1 seed=627606 kind=same
        put count=1 seed=178173 kind=same
        truncate back=1
        put count=6 seed=73760 kind=same
        kill at=disk.sync_directory number=1 moment=within during=open
    """,
    "files expire while an output is opened": """
        settings version=5.3.3 log=4096 queue=50 items=40
        start
        put count=1 seed=126359 kind=same
        open
        put count=3 seed=466545 kind=same
        flush
        put count=4 seed=76317 kind=large
        put count=7 seed=517617 kind=same
        kill at=indexfile_kernels.insert number=1 moment=within during=poll
        pause at=disk.remove_directory number=1 during=poll seconds=9 { expire count=1 }
    """,
    "garbage after a cut record that lines up with the log's end": """
        start
        put count=5 seed=954232 kind=same
        pause at=disk.remove_directory number=1 during=poll seconds=9 { crash; tear back=2 byte=0 rest=ones; tear back=2 byte=0 rest=ones; start; put count=1 seed=910234 kind=same }
    """,
    "a restart removes a file made ahead while a record is looked at": """
        settings version=5.5.0 log=4096 queue=4 items=40 ext=0 fan=0 batch=0
        start
        put count=2 seed=937424 kind=same
        truncate back=1
        put count=7 seed=890248 kind=large
        ahead
        put count=1 seed=287720 kind=longer
        pause at=MappedFile.write number=1 during=poll seconds=9 { stop; start }
    """,
    "what expired is lost where all was dispatched in one batch": """
        settings version=5.5.0 log=4096 queue=50 items=40
        start
        put count=5 seed=487699 kind=same
        put count=5 seed=843263 kind=mixed
        open
        truncate back=1
        put count=8 seed=566758 kind=large
        expire count=1
        put count=1 seed=248939 kind=same
        truncate back=13
    """,
    "no time tells of records that were put over a cut": """
        settings version=5.5.0 log=8192 quiet=1
        start
        put count=9 seed=375135 kind=same
        open
        stream
        truncate back=5
        put count=2 seed=132837 kind=same
        put count=2 seed=132838 kind=same
        put count=9 seed=132839 kind=large
    """,
    "cut records lead to a file made ahead": """
        settings version=4.9.8 log=4096 queue=8 items=300 ext=0 fan=0 batch=0
        start
        put count=7 seed=743774 kind=same
        put count=3 seed=989949 kind=large
        put count=8 seed=89368 kind=same
        pause at=marking.write_checkpoint number=1 during=poll seconds=0 { truncate back=2 }
        ahead
    """,
    "no dispatched record is left where files expire after a cut": """
        start
        put count=3 seed=814730 kind=same
        put count=6 seed=417332 kind=large
        put count=1 seed=268046 kind=large
        open
        close
        truncate back=2
        crash
        start
        put count=6 seed=136356 kind=same
        expire count=1
    """,
    "the dispatched last record has got a zero at its end": """
        start
        put count=1 seed=924416 kind=same
        open
        truncate back=1
        truncate back=1
        put count=2 seed=620045 kind=mixed
        crash
        tear back=1 byte=999 rest=zero
        start
        close
    """,
    "a queue is set back to before a cut, and is as long as it was": """
        start
        put count=2 seed=520526 kind=same
        open
        keep
        truncate back=1
        put count=1 seed=813838 kind=same
        close
        lose what=back seed=379048
    """,
    "a record that was cut stands in the space of a BLANK, and an output has its entry": """
        start
        put count=5 seed=661771 kind=large
        put count=8 seed=426194 kind=same
        pause at=parsed number=1 during=poll seconds=0 { poison seed=527629; put count=2 seed=35801 kind=same }
        truncate back=13
        put count=7 seed=822746 kind=large
    """,
    "a record that was cut stands in the space of a BLANK, and an output has its keys": """
        settings version=4.9.8 log=4096 queue=4 items=40 ext=0 fan=0 batch=0
        start
        put count=11 seed=671873 kind=mixed
        open
        stream
        put count=8 seed=294117 kind=mixed
        flush
        stop
        tear back=4 byte=0 rest=ones
        start
        put count=1 seed=569624 kind=same
        put count=3 seed=728245 kind=large
    """,
    "a record that was cut stands in the space of a BLANK, and nothing of the next file counts": """
        settings version=5.3.3 log=4096 queue=50 items=12 ext=0 fan=0 batch=0 quiet=1
        start
        put count=6 seed=5775 kind=mixed
        put count=7 seed=467788 kind=mixed
        pause at=disk.write_file number=1 during=close seconds=0 { put count=2 seed=922734 kind=same; poison seed=280708 }
        pause at=disk.remove_directory number=1 during=poll seconds=9 { poison seed=785020; stop; start; put count=2 seed=784182 kind=large }
        stop
        tear back=2 byte=0 rest=zero
    """,
    "all records have expired, and those without keys had made the index file": """
        start
        put count=2 seed=39867 kind=zero
        open
        close
        put count=8 seed=262318 kind=large
        expire count=1
    """,
    "a queue whose records have all expired loses its last file": """
        settings version=5.5.0 log=8192 queue=4 items=40 ext=0 fan=0 batch=0 quiet=1
        start
        put count=11 seed=563563 kind=longer
        truncate back=3
        put count=6 seed=543342 kind=large
        open
        close
        expire count=1
        lose what=file seed=412759
    """,
    "a record without the number in its further queue": """
        settings version=4.9.8 log=8192 queue=50 items=12 ext=0 fan=1 batch=0
        start
        put count=8 seed=797020 kind=mixed
        stop
        tear back=1 byte=4989 rest=zero
    """,
    "another queue's record of the same size over one that was cut": """
        start
        put count=2 seed=929333 kind=same
        open
        close
        crash
        tear back=2 byte=1000 rest=zeros
        start
        put count=1 seed=966584 kind=mixed
    """,
    "a stream has read properties that a hole holds now": """
        start
        put count=1 seed=677957 kind=same
        stream
        put count=8 seed=845467 kind=large
        stop
        tear back=2 byte=2488 rest=zeros
    """,
    "the file where the log ended is gone within a second of the last look": """
        start
        put count=10 seed=248314 kind=large
        open
        put count=3 seed=669121 kind=large
        truncate back=2
        crash
        tear back=6 byte=0 rest=zero
    """,
    "an output begins with a log that was written over before a hole": """
        start
        poison seed=869927
        put count=3 seed=668500 kind=same
        crash
        tear back=1 byte=0 rest=zeros
        start
        put count=2 seed=877325 kind=mixed
    """,
    "an output ends where a file begins, and a page before that is lost": """
        start
        put count=2 seed=697145 kind=same
        pause at=disk.remove_directory number=1 during=poll seconds=0
        put count=7 seed=77069 kind=large
        truncate back=3
        put count=8 seed=652639 kind=large
        truncate back=5
        put count=8 seed=29179 kind=large
        stop
        tear back=2 byte=0 rest=zeros
        tear back=9 byte=1 rest=ones
    """,
    "a second page is lost, of records that were put over a cut before the first": """
        settings version=5.5.0 log=4096 queue=50 items=300 ext=0 fan=0 batch=0
        start
        put count=8 seed=630964 kind=mixed
        stream
        poison seed=612035
        put count=5 seed=399181 kind=mixed
        put count=4 seed=561856 kind=same
        stop
        tear back=1 byte=248 rest=zeros
        start
        put count=7 seed=211370 kind=mixed
        crash
        tear back=9 byte=60 rest=zeros
    """,
    "what stands where a stream was is not a record, in the space of a BLANK": """
        settings version=5.3.3 log=4096 queue=4 items=40 ext=0 fan=0 batch=0
        start
        put count=1 seed=613344 kind=large
        put count=5 seed=431411 kind=same
        pause at=disk.make_file number=1 during=poll seconds=9 { poison seed=684887 }
        stream
        put count=2 seed=326312 kind=same
        put count=6 seed=82774 kind=mixed
        put count=2 seed=926862 kind=same
        crash
        tear back=1 byte=0 rest=ones
        start
        put count=5 seed=435098 kind=large
    """,
    "an output begins again, and an error comes with that": """
        settings version=5.3.3 log=4096 queue=8 items=300 ext=0 fan=0 batch=0
        start
        put count=4 seed=489279 kind=large
        put count=3 seed=601470 kind=same
        put count=6 seed=844130 kind=same
        pause at=disk.unmap number=1 during=poll seconds=9 { expire count=1; truncate back=1 }
        poison seed=112667
        truncate back=1
        put count=1 seed=627489 kind=same
    """,
    "a stream is led to the next file by an old BLANK that is written over": """
        settings version=5.3.3 log=16384 queue=8 items=12 ext=0 fan=0 batch=0
        start
        put count=8 seed=839595 kind=large
        stream
        pause at=marking.write_checkpoint number=1 during=poll seconds=9 { crash; tear back=7 byte=0 rest=ones; start; put count=6 seed=851220 kind=shorter; ahead }
        put count=1 seed=185553 kind=same
    """,
    "what was cut while nobody wrote has expired": """
        start
        put count=5 seed=695166 kind=large
        open
        put count=2 seed=331326 kind=large
        close
        truncate back=2
        put count=1 seed=164601 kind=same
        put count=3 seed=345817 kind=shorter
        expire count=2
    """,
    "an index file of expired records alone is removed": """
        settings version=5.5.0 log=4096 queue=8 items=12 ext=0 fan=0 batch=0 quiet=1
        start
        put count=12 seed=672024 kind=same
        open
        put count=7 seed=155970 kind=mixed
        put count=2 seed=393029 kind=same
        expire count=1
        close
        lose what=queue seed=156704
    """,
    "cut before a hole and written over, and what stood at the hole lines up again": """
        start
        put count=4 seed=131815 kind=same
        crash
        tear back=1 byte=0 rest=zeros
        pause at=disk.map_file number=1 during=open seconds=9 { start }
        truncate back=2
        put count=1 seed=708598 kind=same
    """,
    "records with the entries of those before them, of a clock that has gone back": """
        start
        put count=4 seed=215675 kind=zero
        open
        clock delta=-3000
        pause at=MappedFile.write number=1 during=close seconds=9 { truncate back=8; put count=7 seed=134769 kind=zero }
    """,
    "the same after the machine lost some": """
        start
        put count=3 seed=8027 kind=zero
        open
        stop
        put count=1 seed=899042 kind=same
        poison seed=690434
        put count=2 seed=711254 kind=same
        clock delta=-3000
        put count=2 seed=378442 kind=same
        crash
        tear back=4 byte=0 rest=ones
        start
        put count=6 seed=45483 kind=zero
    """,
    "a record of the same queue and size over one that was cut, in an output that waits": """
        settings version=5.3.3 log=8192 queue=50 items=300 ext=0 fan=1 batch=0
        start
        put count=8 seed=820442 kind=same
        open
        stream
        put count=3 seed=331905 kind=same
        stream
        put count=7 seed=157262 kind=same
        close
        put count=8 seed=70950 kind=mixed
        pause at=marking.write_checkpoint number=1 during=poll seconds=9 { put count=1 seed=884637 kind=shorter; put count=8 seed=945357 kind=same }
        expire count=1
        put count=8 seed=104574 kind=mixed
        put count=3 seed=119498 kind=same
        poison seed=767158
        put count=2 seed=908382 kind=mixed
        truncate back=8
        put count=3 seed=897321 kind=same
    """,
    "the same after a hole": """
        settings version=5.5.0 log=4096 queue=50 items=40 ext=0 fan=0 batch=0
        start
        put count=9 seed=159569 kind=same
        put count=4 seed=568449 kind=zero
        put count=8 seed=546221 kind=large
        put count=5 seed=757909 kind=mixed
        stop
        start
        put count=8 seed=692087 kind=mixed
        pause at=indexfile_kernels.restore_slots number=1 during=open seconds=0 { put count=2 seed=975958 kind=twin }
        truncate back=13
        put count=7 seed=468233 kind=same
        stop
        tear back=9 byte=5000 rest=ones
        start
        stop
        tear back=2 byte=0 rest=zero
        start
        put count=7 seed=829006 kind=longer
        close
        put count=8 seed=227316 kind=same
    """,
    "a BLANK before a stale record that is held back, and a file after it": """
        settings version=5.5.0 log=16384 queue=8 items=40 ext=0 fan=0 batch=0
        start
        put count=6 seed=866097 kind=same
        put count=4 seed=37295 kind=same
        pause at=disk.sync_file_system number=1 during=poll seconds=0 { truncate back=1; put count=6 seed=478916 kind=large; put count=6 seed=605273 kind=mixed }
        clock delta=-3000
        put count=1 seed=49626 kind=same
        clock delta=3000
        put count=1 seed=584371 kind=same
        truncate back=6
        put count=4 seed=915598 kind=large
    """,
    "a file begins with the same bytes after a cut before it": """
        settings version=5.5.0 log=4096 queue=50 items=300 ext=0 fan=0 batch=0
        start
        put count=2 seed=744083 kind=same
        stream
        put count=6 seed=728499 kind=large
        pause at=disk.write_pieces number=1 during=close seconds=9 { truncate back=7; put count=7 seed=475782 kind=twin }
    """,
    "a cut takes the file into which old records lead": """
        settings version=4.9.8 log=4096 queue=8 items=12 ext=0 fan=0 batch=0
        start
        put count=6 seed=867203 kind=mixed
        put count=3 seed=647249 kind=large
        crash
        tear back=3 byte=0 rest=zero
        start
        put count=3 seed=522442 kind=longer
        put count=3 seed=744563 kind=mixed
        pause at=disk.remove_directory number=1 during=poll seconds=9 { poison seed=830517; put count=3 seed=721929 kind=same }
        put count=8 seed=320642 kind=same
        truncate back=13
    """,
    "a file expires while an output is opened after a cut": """
        settings version=4.9.8 log=4096 queue=4 items=300 ext=0 fan=0 batch=0
        start
        put count=2 seed=197129 kind=same
        crash
        tear back=1 byte=0 rest=zero
        start
        put count=4 seed=554020 kind=large
        put count=7 seed=980227 kind=mixed
        pause at=recording.save number=1 during=open seconds=9 { expire count=1 }
    """,
    "only a record that ends with a zero is left after an expiry": """
        settings version=4.9.8 log=4096 queue=4 items=12 ext=0 fan=0 batch=0
        start
        put count=5 seed=74558 kind=large
        open
        put count=1 seed=359825 kind=same
        put count=8 seed=622417 kind=zero
        put count=1 seed=95617 kind=same
        pause at=marking.set_abort number=1 during=poll seconds=0 { put count=4 seed=457520 kind=same; poison seed=632590; put count=1 seed=123395 kind=same }
        truncate back=8
        put count=1 seed=175953 kind=same
        stop
        tear back=4 byte=0 rest=zero
        start
        put count=1 seed=900016 kind=zero
        pause at=disk.populate number=1 during=open seconds=0 { expire count=1 }
    """,
    "records that were cut stand where a page was lost before": """
        start
        put count=3 seed=322578 kind=same
        pause at=parsed number=1 during=poll seconds=9 { stop; tear back=1 byte=0 rest=zeros }
        tear back=1 byte=0 rest=zero
        start
        put count=1 seed=181691 kind=same
        truncate back=1
    """,
    "verify called an output incomplete that lacked only the BLANK before a file made ahead": """
        start
        put count=4 seed=830408 kind=same
        put count=6 seed=213739 kind=large
        open
        truncate back=2
        stop
        start
        close
        ahead
    """,
    "a record that is not indexed is found by the item of one that stood there": """
        start
        put count=9 seed=602591 kind=mixed
        open
        poison seed=220333
        truncate back=2
        put count=1 seed=397540 kind=mixed
        put count=1 seed=683968 kind=same
    """,
}
REAL = {
    "entries of cut records count again for a broker that starts": """
        start
        put count=6 seed=569933 kind=same
        open
        truncate back=4
        put count=1 seed=826120 kind=mixed
        stop
        start
        put count=2 seed=3 kind=same
    """,
    "a record that a broker cannot read": """
        start
        put count=1 seed=730418 kind=same
        poison seed=840715
        truncate back=1
    """,
    "a cut record in the space of a BLANK is given to those that ask for its place": """
        start
        put count=7 seed=1 kind=large
        put count=80 seed=569933 kind=same
        open
        truncate back=40
        put count=3 seed=6 kind=large
    """,
    "queues end where the log does": """
        start
        put count=6 seed=569933 kind=same
        truncate back=4
        put count=1 seed=826120 kind=mixed
    """,
    "a stream, where a cut could not remove a file": """
        start
        put count=1 seed=455497 kind=same
        stream
        put count=8 seed=922723 kind=large
        truncate back=1
        truncate back=1
        put count=1 seed=431687 kind=mixed
    """,
    "a job, where a cut could not remove a file, and its broker takes it for the log's again": """
        start
        put count=1 seed=455497 kind=same
        open
        put count=8 seed=922723 kind=large
        truncate back=1
        truncate back=1
        put count=1 seed=431687 kind=mixed
        stop
        start
        put count=1 seed=431688 kind=mixed
    """,
    "a job, where a cut could not remove a file, and its broker does so when it starts": """
        start
        put count=1 seed=455497 kind=same
        open
        put count=8 seed=922723 kind=large
        truncate back=1
        truncate back=1
        put count=1 seed=431687 kind=mixed
        crash
        start
        put count=1 seed=431688 kind=mixed
    """,
    "rows by an index that a cut made wrong": """
        start
        put count=7 seed=500586 kind=same
        truncate back=3
        put count=8 seed=525683 kind=longer
    """,
    "a broker's start passes over a record that is written over a longer one that was cut": """
        settings version=4.9.8 log=16384 queue=8 items=40 ext=0 fan=1 batch=0
        start
        put count=9 seed=110259 kind=mixed
        open
        truncate back=2
        put count=2 seed=265688 kind=same
        crash
        tear back=1 byte=0 rest=ones
        start
        put count=5 seed=160301 kind=same
    """,
    "verify of a queue that a cut has shifted before what is left of its log": """
        settings version=5.3.3 log=16384 queue=4 items=300 ext=1 fan=0 batch=0
        start
        put count=9 seed=52693 kind=longer
        open
        stream
        put count=5 seed=132683 kind=same
        open
        kill at=parsed number=7 moment=before during=poll
        truncate back=1
        put count=3 seed=19657 kind=mixed
        put count=7 seed=37156 kind=large
        open
        put count=8 seed=515121 kind=large
        crash
        start
        put count=4 seed=23494 kind=zero
        expire count=1
    """,
    "a stream has read what a hole holds now, and the log continues in a file left behind": """
        start
        put count=5 seed=613102 kind=same
        stream
        pause at=disk.unmap number=4 during=poll seconds=0 { put count=7 seed=473031 kind=large; truncate back=3; put count=5 seed=593967 kind=large }
        stop
        tear back=4 byte=1000 rest=ones
        start
    """,
    "a cut beside an expired file that the broker could not remove": """
        start
        put count=2 seed=695833 kind=same
        truncate back=1
        put count=8 seed=850471 kind=large
        expire count=1
        truncate back=1
    """,
    "a broker does not start again with its own files while we stand still": """
        settings version=5.3.3 log=16384 queue=4 items=12 ext=0 fan=0 batch=0
        start
        put count=4 seed=500501 kind=same
        truncate back=3
        put count=6 seed=863691 kind=mixed
        put count=2 seed=507733 kind=zero
        pause at=parsed number=1 during=poll seconds=0 { crash; start; clock delta=3600000; put count=7 seed=8017 kind=same }
    """,
    "4.9.8 passes over a record that stands where a cut one of the same size stood": """
        settings version=4.9.8
        start
        put count=5 seed=133729 kind=large
        open
        truncate back=13
        put count=6 seed=458807 kind=same
        stop
        tear back=1 byte=1 rest=zero
        start
        put count=2 seed=698825 kind=same
        put count=2 seed=670647 kind=mixed
        truncate back=1
        put count=1 seed=634057 kind=longer
    """,
    "4.9.8 names entries of a queue whose files and records are gone": """
        settings version=4.9.8
        start
        put count=9 seed=969449 kind=same
        put count=1 seed=207679 kind=large
        open
        put count=7 seed=36600 kind=large
        expire count=1
    """,
    "4.9.8 passes over a record, and starts again": """
        settings version=4.9.8
        start
        put count=1 seed=618333 kind=mixed
        open
        put count=6 seed=461666 kind=mixed
        truncate back=13
        stop
        start
        put count=4 seed=368666 kind=shorter
        stop
        start
    """,
    "5.5.0 passes over a record that was cut and is the log's again": """
        settings version=5.5.0 log=16384 queue=4 items=40 ext=0 fan=0 batch=0
        start
        put count=5 seed=22678 kind=same
        pause at=disk.make_file number=1 during=poll seconds=0 { truncate back=1; stop; start }
    """,
    "a cut before a hole, and before a file that the broker could not remove": """
        start
        put count=8 seed=9333 kind=large
        put count=4 seed=284152 kind=zero
        stream
        stop
        tear back=9 byte=0 rest=ones
        start
        pause at=disk.write_pieces number=2 during=poll seconds=0 { truncate back=13; put count=3 seed=913337 kind=large; truncate back=2; put count=1 seed=582421 kind=zero }
    """,
    "4.9.8 gives pieces of records, and ends the queue elsewhere when it starts": """
        settings version=4.9.8
        start
        put count=8 seed=200896 kind=same
        pause at=disk.map_file number=1 during=poll seconds=9 { stop; tear back=9 byte=0 rest=zero; start; put count=3 seed=472128 kind=mixed }
        put count=2 seed=900728 kind=same
        crash
        start
        put count=3 seed=888905 kind=large
    """,
    "5.5.0 counts an entry in a queue's last file, which has none": """
        settings version=5.5.0 log=8192 queue=4 items=12 ext=0 fan=0 batch=0
        start
        put count=6 seed=431277 kind=mixed
        truncate back=4
        put count=7 seed=838439 kind=same
        put count=4 seed=488645 kind=mixed
        crash
        start
    """,
    "5.5.0 puts what a queue lacks when it starts": """
        settings version=5.5.0 log=4096 queue=4 items=300 ext=0 fan=0 batch=0 quiet=1
        start
        put count=7 seed=706310 kind=mixed
        poison seed=992462
        put count=2 seed=427463 kind=mixed
        poison seed=834841
        crash
        start
        truncate back=8
        put count=1 seed=561807 kind=mixed
        pause at=marking.set_abort number=1 during=poll seconds=0 { put count=5 seed=226258 kind=shorter; put count=2 seed=729484 kind=mixed }
        put count=2 seed=81922 kind=mixed
    """,
    "a stream and an output have what stood in a hole, and wait at records that were cut": """
        settings version=5.3.3
        start
        put count=1 seed=257030 kind=same
        stream
        pause at=planned number=4 during=open seconds=9 { truncate back=5; put count=7 seed=749553 kind=large; crash; tear back=1 byte=60 rest=zero; start; put count=2 seed=635495 kind=large }
        put count=2 seed=714976 kind=zero
        pause at=written number=1 during=poll seconds=0 { truncate back=3 }
        stop
        tear back=1 byte=0 rest=zeros
        start
        put count=3 seed=815461 kind=same
        truncate back=2
    """,
    "a broker that starts counts an empty last file for an entry, past which it is asked": """
        settings version=4.9.8 log=16384 queue=4 items=40 ext=0 fan=0 batch=0 quiet=1
        start
        put count=6 seed=644057 kind=same
        truncate back=4
        put count=5 seed=24285 kind=mixed
        put count=1 seed=632050 kind=same
        put count=3 seed=415125 kind=mixed
        crash
        tear back=2 byte=1 rest=zeros
        start
        put count=7 seed=238831 kind=mixed
    """,
}


@pytest.mark.parametrize("name", KEPT)
def test_what_failed_once_holds(name: str, tmp_path: Path) -> None:
    """
    What the name says; the output, queries and the stream are the log's after each step.
    """
    with POINTS.installed():
        outcome, failure, _ = carry_out(parse_history(KEPT[name]), tmp_path / "w")

    assert failure is None
    assert outcome.steps.total() > 1


@pytest.mark.oracle
@pytest.mark.parametrize("name", REAL)
def test_what_failed_once_holds_beside_a_real_broker(name: str, tmp_path: Path) -> None:
    """
    The same, with the store classes of a version, 5.5.0 by default: their answers are ours.
    """
    history = parse_history(REAL[name])
    versions = [each.text("version") for each in history if each.name == "settings"]
    jvm = Jvm(*versions or ["5.5.0"])
    try:
        with POINTS.installed():
            outcome, failure, _ = carry_out(history, tmp_path / "w", jvm)
    finally:
        jvm.close()

    assert failure is None
    assert outcome.checks["asked GET"] > 0
