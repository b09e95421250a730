"""Checks this bundle: payloads, chain, head. Python 3.8 or later, nothing else. Ends with 0 where all is well."""
import hashlib, os, sys

os.chdir(os.path.dirname(os.path.abspath(__file__)))
head = open("head.txt", encoding="utf-8", newline="\n").read().split("\n")
events, last, conversation = head[6].split(" ", 2)
previous, length, missing = "0" * 64, 0, 0
for line in open("chain.tsv", encoding="utf-8", newline="\n"):
    sequence, payload, hash, event = line[:-1].split("\t", 3)
    path = "payloads/%06d.json" % int(sequence)
    if os.path.exists(path):
        if hashlib.sha256(open(path, "rb").read()).hexdigest() != payload:
            sys.exit(path + " is not what was recorded")
    else:
        missing += 1
    text = "annals-event-v1\n%s\n%s\n%s\n%s\n%s\n" % (conversation, sequence, event, payload, previous)
    previous = hashlib.sha256(text.encode("utf-8")).hexdigest()
    if previous != hash or int(sequence) != length:
        sys.exit("event %s does not follow from the one before" % sequence)
    length += 1
if (str(length), previous) != (events, last):
    sys.exit("the chain does not end where the head says")
if len(os.listdir("payloads")) != length - missing:
    sys.exit("there are payloads that are not in the chain")
here = length - missing
print("the chain of %d events holds; %d payloads are as they were recorded, %d are not here" % (length, here, missing))
